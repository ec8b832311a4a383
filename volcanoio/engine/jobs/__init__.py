"""The Job controller: lifecycle table, reducer, pod and PodGroup building."""
