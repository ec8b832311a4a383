"""Plugins that share the cluster between queues and namespaces, and the modules that several of them use.

`attributes`, `quantities` and `gauges` are such modules; the others are one plugin each. Imports
`volcanoio.framework` and `volcanoio.model` only. Start with `proportion`, then `capacity`.
"""
