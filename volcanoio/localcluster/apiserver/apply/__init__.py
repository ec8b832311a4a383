"""Server-side apply: managers of fields, merges of applied configurations, and conflicts.

It follows structured-merge-diff. `applier` carries out the requests, `tracking` updates metadata.managedFields on other
writes. Start with `field_sets` and `typed_values`.
"""
