"""Storage of objects: the store in memory, pages of lists, and SQLite persistence.

The store is pure (no I/O, no clock); persistence observes it. Imports apimachinery only. Start with `store`.
"""
