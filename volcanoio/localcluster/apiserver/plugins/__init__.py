"""The server's own admission: what Kubernetes' built-in plugins change, refuse and count.

`chain` says which act on which kind, in Kubernetes' order.
"""
