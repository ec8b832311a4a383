"""The event bus and the journal: order, causes, record and replay."""
