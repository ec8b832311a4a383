"""Async shells around the engine: scheduler actor, controller host, policy host, loading, metrics."""
