"""Functions of Kubernetes' CEL environment: tables of overloads and their implementations.

`cel.library` joins the tables. Start with `standard`.
"""
