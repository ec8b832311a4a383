"""The PodGroup controller: PodGroups for pods that no Volcano Job made: bare ones, and those of workloads.

`membership` says which PodGroup a pod is in, `content` what that PodGroup holds, `state` what is known of one, `plan`
what to do next.
"""
