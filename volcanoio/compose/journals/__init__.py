"""Journals of runs: recording them, replaying them, and what they show about the past.

`recording` is used by the processes themselves; the other modules only read journals, and need neither a cluster nor
a clock. Start with `replay`.
"""
