"""When a waiting job starts: run times learned from finished jobs, the queue simulated forward, an interval.

Pure; may import the model, the framework, accounting and scheduling. Start with `queue_model`; `intervals` makes its
samples an answer, `run_times` are what it draws from, `observed_state` is where it begins.
"""
