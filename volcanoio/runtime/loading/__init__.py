"""Finds and loads plugins, policies and controllers, and reloads them and their configuration when files change.

Imports `framework`, `kube` and `model`, nothing else of `runtime`. Start with `registry`; `mounted_files` loads code
from directories, `reloading` and `configmap_source` watch configuration.
"""
