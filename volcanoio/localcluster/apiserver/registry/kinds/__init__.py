"""Strategies of the built-in kinds: their defaults and rules (Kubernetes: `pkg/registry`, `pkg/apis`).

Each module has one group of kinds and exports strategies; `table` maps resources to them. Start with `strategy`.
"""
