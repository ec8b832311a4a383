"""ReplicaSets and ReplicationControllers: so many pods of one template (Kubernetes: pkg/controller/replicaset)."""
