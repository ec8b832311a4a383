"""Plugins that keep the pods of a job close: in the network (network-topology-aware), by task (task-topology).

Import framework and model only. Start with `networktopology`.
"""
