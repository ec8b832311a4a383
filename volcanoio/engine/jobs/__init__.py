"""The Job controller: the lifecycle of Volcano Jobs as a pure reducer.

Read in this order: `state.transitions` (phase × action as data), `state.job_state` (what is known of one job),
`controller` (its inputs, and how one event is reduced), `decide.observations` (events and outcomes
of writes), `decide.planning` (decisions first, then what the phase requires), `decide.reconciliation` (the
writes). What a job needs is computed in `pods`; what is stored on it is `state.stored_state` and `status`. May import
`framework` and `model`.
"""
