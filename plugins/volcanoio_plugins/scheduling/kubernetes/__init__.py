"""kube-scheduler's filters and scorers, one of its plugins per module; `predicates` and `nodeorder` combine them.

They compute all nodes at once. Imports `volcanoio.framework` and `volcanoio.model` only. Start with `nodeindex` (node
labels and taints as columns) and `nodeaffinity`.
"""
