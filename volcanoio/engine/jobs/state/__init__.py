"""What is observed of one job, what is stored on it, and which writes are in flight. Imports `pods`.

Start with `job_state`: `JobState` is all that is kept in memory, `Reduction` its next value with the effects.
`stored_state` survives a restart of the controller; `transitions` is phase × action as data.
"""
