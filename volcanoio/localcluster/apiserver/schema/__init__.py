"""Structural schemas of custom resources, compiled to closures: prune, default, validate.

Also the types of the built-in kinds, and formats and patterns, which `cel` uses too. Imports the model and `cel`.
Start with `compiled`.
"""
