"""Credentials of requests: fixed ones, token files, exec plug-ins and OIDC.

Imports `model`. Start with `sources`, which defines what a transport needs; `kubeconfig` chooses among the others.
"""
