"""exec, attach and port-forward: streams between containers and clients over WebSocket or SPDY.

`remote` is the interface between a protocol and a container, `pod_connections` the routes. Start with `remote`.
"""
