"""Scheduler plugins, one a file."""
