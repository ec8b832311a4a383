"""DaemonSets: a pod on each node that is fit for it (Kubernetes: pkg/controller/daemon)."""
