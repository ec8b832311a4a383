"""Builds each process out of the rooms below; the only place that knows both runtime and localcluster."""
