"""Job plugins, one per module, named as in `spec.plugins` of a Job.

Imports `volcanoio.framework` and `volcanoio.model` only. Start with `env`.
"""
