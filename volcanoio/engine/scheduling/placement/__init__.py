"""Placement: find nodes for alike tasks with one of three strategies, and the caches they share.

It may import `cluster` and `config`. Start with `placer`, which chooses among `by_node_state`, `by_node_row` and
placing task by task; docs/design/placement.md has a diagram, and what invalidates each cache.
"""
