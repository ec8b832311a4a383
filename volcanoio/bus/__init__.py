"""The event bus and the journal: total order of events, their causes, recording and reading back.

Imports `framework` and `model`. Start with `event_bus`; `journal` writes and reads what `records` defines.
"""
