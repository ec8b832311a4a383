"""Validation that several sides share: field errors, DNS names, and pod templates as the API server checks them.

Used by the admission webhooks (`engine.admission`) and by the embedded API server. Imports `model` only; start with
`field_errors`.
"""
