"""The Tables that `kubectl get` shows.

`tables` selects the columns; `columns`, `pods` and `workload_columns` have those of the built-in kinds.
"""
