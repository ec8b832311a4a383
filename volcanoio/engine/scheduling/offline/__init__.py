"""The scheduler without an API server: for `simulate`, for tests, and to replay a journal.

It may import all scheduler packages. Start with `offline`.
"""
