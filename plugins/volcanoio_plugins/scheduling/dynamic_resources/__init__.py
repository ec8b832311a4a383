"""Kubernetes' dynamic resource allocation: devices of ResourceSlices for the ResourceClaims of pods.

Start with `filtering`, which the plugin predicates enables. Imports the framework and the model only.
"""
