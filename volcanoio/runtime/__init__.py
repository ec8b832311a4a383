"""The asynchronous shells around the pure engine: what the processes of scheduler and controllers run.

Imports `engine`, `kube`, `bus` and below; `compose` puts the parts together. Start with `scheduler.scheduler` and
`controllers.controller_host`. `policies` runs lifecycle policies, `loading` finds and reloads plugins.
"""
