"""The controllers of kube-controller-manager: workloads, disruption budgets, node lifecycle, endpoints.

They use the public API only (lists, watches, writes), so they work against any API server. Each controller is a
`Reconciler` of the framework; `manager` runs all of them on the controller host that also runs Volcano's own. Start
with `contract`, then a short controller such as `replicasets`. May import `framework`, `model`, `kube`,
`engine.hosting`, the cluster's clock and timers, and the API server's selectors; nothing of `nodes`.
"""
