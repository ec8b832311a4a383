"""All communication with an API server, as client-go provides it: transports, informers, writes and Events.

Imports `framework` and `model`. Start with `transport`, which everything goes through, then `informer` for reads and
`effect_executor` and `binder` for writes; `client` is for rare calls.
"""
