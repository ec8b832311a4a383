"""The Queue controller: state, parents and counts of queues, and Commands for them.

`transitions` is the lifecycle of a queue as data. May import `framework` and `model`.
"""
