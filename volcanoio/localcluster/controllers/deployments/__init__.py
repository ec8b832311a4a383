"""Deployments: rollouts over ReplicaSets (Kubernetes: pkg/controller/deployment)."""
