"""HyperNodes in the scheduler: the tree over the node columns, and the parts of the cluster a gang may be placed in.

Imports the cluster state, the columns and the rules. Start with `tree`; `domains` is what a session asks.
"""
