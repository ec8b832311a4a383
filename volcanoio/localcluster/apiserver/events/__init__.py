"""Events under both of their names: core v1, in which they are stored, and events.k8s.io/v1."""
