"""The pure half of the controller host: routing, folding, the barrier, in-flight bookkeeping and failed reducers.

`Host.handle(event)` is a synchronous function of its history: a journal of events gives the same dispatches again.
"""
