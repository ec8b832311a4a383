"""The scheduling queue: waiting jobs of each queue and single pods in order, kept across cycles.

It imports `cluster.jobs`, `cluster.ledger`, the framework and the model. Start with `backlogs`.
"""
