"""State of the cluster: nodes as columns, tasks, jobs and queues, updated event by event.

It may import the framework, the model and `podindex`, `placement`, `ordering`,
`preemption.victim_columns` and `config`; never the session. Start with `state`: `ClusterState.fold` takes every event.
`ledger` is the only place where a task changes its status or node.
"""
