"""Simulated nodes: they register, admit, run and end pods through the public API.

`pods` is the pure part and decides what happens to a pod next. The other modules are the shell around it: one watch,
one heap of timers and a few writers for all nodes together. Start with `fleet`, then `kubelets`. May import `model`,
`kube` and the cluster's clock and timers; containers that really run are behind the interface in `container_runtime`.
"""
