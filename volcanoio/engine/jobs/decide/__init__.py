"""What happens next to a job: lifecycle events, answers of policies, actions, and the writes that follow.

Imports `status`, `state` and `pods`. Start with `planning` (the order in which one reduction decides), then
`observations` (events folded into the state) and `reconciliation` (writes that make the cluster match the spec).
"""
