"""The Python API for people who submit jobs."""
