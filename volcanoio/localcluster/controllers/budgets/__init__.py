"""PodDisruptionBudgets: how many pods may be evicted now (Kubernetes: pkg/controller/disruption)."""
