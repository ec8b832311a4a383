"""The rows of `bench.lifecycle`."""
