"""Commands that read a cluster: `jobs`, `queues`, `nodes`, `pods`, `logs`, `events`, `watch`, `wait` and `top`.

They change nothing, and may import what commands may. Start with `commands`, which declares them; `tables` has the rows
that they print, `following` the objects as they change.
"""
