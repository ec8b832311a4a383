"""Plugin numa-aware: nodes whose kubelet can align a pod's CPUs on NUMA nodes.

Start with `plugin`; `free_cpus` is what is known of each node's CPUs. The rules of kubelets are in
`framework.scheduling.numa`.
"""
