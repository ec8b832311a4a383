"""Plugins that share the cluster between queues and namespaces, and what they have in common.

`attributes`, `demand`, `quantities` and `waterfilling` are shared; the other modules are one plugin each. Imports
`volcanoio.framework` and `volcanoio.model` only. Start with `proportion`, then `capacity`.
"""
