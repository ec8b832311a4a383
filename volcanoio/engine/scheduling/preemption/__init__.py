"""Victims: which tasks may be evicted for another, in which order, and on which nodes that makes room.

It may import `cluster`, `placement` and `session.context`. Start with `victims`, which actions that evict call.
"""
