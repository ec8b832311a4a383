"""The pure half of the controller host: routing, caching, sync barrier, effects in flight and failed reducers.

Start with `host`: `Host.handle(event)` depends only on the events before it, so a journal of events gives the same
dispatches again. `controller_host` drives one controller. May import `framework` and `model`.
"""
