"""Structural schemas of custom resources, compiled to closures: prune, default, validate."""
