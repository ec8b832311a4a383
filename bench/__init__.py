"""Benchmarks, which print JSON with the machine they were measured on; tests assert none of it."""
