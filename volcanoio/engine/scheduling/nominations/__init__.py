"""Nominations of preemptors, and reservations of room for jobs.

It imports `cluster`'s columns and tasks, the framework and the model.
"""
