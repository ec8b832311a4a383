"""How busy nodes are, polled from where the configuration's `metrics` section says (Volcano: pkg/scheduler/metrics)."""
