"""`metrics.k8s.io/v1beta1`: what nodes and pods use, as metrics-server would say it."""
