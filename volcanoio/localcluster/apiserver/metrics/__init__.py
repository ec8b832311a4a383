"""Metrics: those of the server itself under `/metrics`, and the usage of simulated containers.

Start with `request_metrics` or `container_usage`.
"""
