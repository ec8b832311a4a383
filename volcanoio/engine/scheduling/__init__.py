"""The scheduler: the state of the cluster, one cycle over it, and the decisions of a cycle.

Read in this order: `cluster.state` folds events into nodes, tasks, jobs and queues; `session.cycle` runs one cycle on
that state; `session.session` is what actions call and `session.statement` what commits placements; `placement.placer`
finds nodes, `preemption.victims` finds victims; `status.closing` writes the results of the cycle. `config` turns the
configuration file into combined plugins, `ordering` keeps jobs in order across cycles, `cluster.nominations` keeps room
for preemptors and gangs, `podindex` counts pods by label for affinity and spread, and `offline` runs all of it without
an API server. May import `framework` and `model`.
"""
