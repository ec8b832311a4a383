"""The scheduling queue: the order of queues, jobs and single pods, kept across cycles.

It imports `cluster.jobs`, the framework and the model. Start with `backlogs`.
"""
