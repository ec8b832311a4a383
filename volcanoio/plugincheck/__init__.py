"""Checks of a scheduler plugin or action on random clusters, for `volcanoio plugin test` and `volcanoio.testing`.

Imports `engine`, `runtime.scheduler.setup` and `runtime.loading`; imported by `testing` and `cli` alone. Start with
`check`.
"""
