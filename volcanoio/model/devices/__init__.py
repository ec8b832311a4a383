"""Devices that pods share: the names and forms by which a scheduler and the device plugins of nodes agree.

Imports nothing of ours. Start with `annotations`.
"""
