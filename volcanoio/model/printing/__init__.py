"""Text that `kubectl get` and `vcctl` print alike: ages, and the status column of pods. Imports `model` only."""
