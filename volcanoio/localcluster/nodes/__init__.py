"""Simulated nodes: they speak only the public API and so work against any API server."""
