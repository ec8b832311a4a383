"""Claims of pods: volume claims, and claims of devices (dynamic resource allocation).

Imports the cluster state's inputs and shapes. Start with `volumes`; `device_claims` is built alike.
"""
