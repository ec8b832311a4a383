"""Simulated nodes: they register, admit, run and end pods, and speak only the public API.

The pure part decides what a pod does next (`lifecycle` with `behaviour`, `admission`, `status`); `fleet` is the shell
around it: one watch, one heap of timers and a few writers for all nodes together.
"""
