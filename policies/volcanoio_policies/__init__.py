"""The built-in lifecycle policies, one per module, and the controller `queue_capability`.

Imports `volcanoio.framework` and `volcanoio.model` only. Start with `min_runtime`.
"""
