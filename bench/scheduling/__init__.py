"""The rows of `python -m bench.scheduler`, one file each."""
