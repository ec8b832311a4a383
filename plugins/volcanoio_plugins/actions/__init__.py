"""Scheduler actions, one a file."""
