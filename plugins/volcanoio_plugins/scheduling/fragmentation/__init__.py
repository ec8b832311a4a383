"""Plugin fragmentation-aware: places pods so that the GPUs that stay idle remain usable for the pods to come.

`cards` reads from annotations how much of each GPU is free, `measure` computes what typical pods can use of it, `kinds`
which pods are typical, and `aware` is the plugin.
"""
