"""Scheduler actions, one per module, and what those that evict share (`eviction`, `bundles`).

Imports `volcanoio.framework` and `volcanoio.model` only. Start with `backfill`, then `allocate`.
"""
