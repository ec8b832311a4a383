"""What kube-controller-manager does in a real cluster: workloads, budgets, node health, endpoints.

They speak only the public API, through lists, watches and writes, so they work against any API server. Each controller
is a pure reconciler (`frame.contract.Controller`); `frame.host.ControllerHost` is the async shell they share.
"""
