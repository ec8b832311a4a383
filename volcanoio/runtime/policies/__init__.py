"""Lifecycle policies at run time: configuration, loading, calls within a time limit, and the objects they read.

Imports `engine`, `kube`, `runtime.loading` and `runtime.timers`, not `runtime.controllers`. Start with `policy_host`,
which asks the policies; `policy_set` holds those that the configuration names, `instances` those that jobs name.
"""
