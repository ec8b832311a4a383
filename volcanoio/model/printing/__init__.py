"""Text that both `kubectl get` and `vcctl` print: ages, and the status column of pods. Imports `model` only."""
