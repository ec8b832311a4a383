"""Credentials of requests: fixed ones, token files, exec plug-ins and OIDC; and what their user may do.

Imports `model`; `reviews`, which asks what a user may do, also sends requests. Start with `sources`, which defines what
a transport needs; `kubeconfig` chooses among the others.
"""
