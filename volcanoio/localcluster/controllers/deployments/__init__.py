"""Deployments: rollouts over ReplicaSets (Kubernetes: pkg/controller/deployment).

`rollout` is the arithmetic, `controller` the reconciler. Start with `controller`.
"""
