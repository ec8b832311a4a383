"""Controllers of the server itself: garbage, namespaces, definitions, service accounts, volumes.

Each adds keys to a `workqueue` when the store changes and writes through `core` and the registry.
"""
