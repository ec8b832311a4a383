"""Index of pods by labels and node: the counts behind pod affinity, anti-affinity, topology spread and host ports.

It imports the framework, the model and `cluster`'s jobs, loads and shapes. Start with `index`.
"""
