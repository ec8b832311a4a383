"""The controllers of kube-controller-manager: workloads, disruption budgets, node lifecycle, endpoints.

They use the public API only (lists, watches, writes), so they work against any API server. Each controller is a
`Reconciler` of the framework; `volcanoio/compose/local.py` lists them, and the controller host that also runs Volcano's
own runs them. Start with `contract`, then a short controller such as `replicasets`. May import `framework`,
`model` and the API server's selectors.
"""
