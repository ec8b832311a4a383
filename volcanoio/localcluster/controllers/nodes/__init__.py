"""Nodes that fall silent, and what becomes of their pods (Kubernetes: nodelifecycle, tainteviction, podgc)."""
