"""StatefulSets: pods with names, claims and an order of their own (Kubernetes: pkg/controller/statefulset)."""
