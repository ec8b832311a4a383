"""Scheduler plugins, one per module, named as in Volcano's pkg/scheduler/plugins.

`queues` has the plugins that share the cluster between queues, `kubernetes` the filters and scorers of `predicates` and
`nodeorder`. Imports `volcanoio.framework` and `volcanoio.model` only. Start with `priority`, then `gang`.
"""
