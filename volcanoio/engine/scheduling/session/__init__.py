"""One scheduling cycle: open a session, run the actions, close it.

It may import everything of the scheduler but `offline`. Start with `cycle.run_cycle`; `session` is what actions call,
`context` what the session shares with its helpers, `statement` what commits or discards placements of a job as a
whole.
"""
