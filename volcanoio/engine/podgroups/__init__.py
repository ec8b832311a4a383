"""The PodGroup controller: PodGroups for pods that no Volcano Job made, bare ones and those of workloads.

Start with `controller`; `podgroup` has name, members and content of a PodGroup. May import `framework` and `model`.
"""
