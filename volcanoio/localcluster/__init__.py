"""The embedded cluster: an API server, the controllers of kube-controller-manager, and simulated or real containers.

For laptops and tests; nothing of it runs in a real cluster. Start with `apiserver`, then `controllers` and `nodes`;
`processes` runs containers as processes of this machine. `clock` is the cluster's time, which may run fast or jump.
"""
