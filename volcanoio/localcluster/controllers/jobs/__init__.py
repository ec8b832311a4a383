"""batch/v1 Jobs: pods that are to end well (Kubernetes: pkg/controller/job, ttlafterfinished)."""
