"""Plugin numa-aware: nodes whose kubelet can align a pod's CPUs on NUMA nodes.

Start with `plugin`; `free_cpus` computes the free CPUs of each node. The rules of kubelets are in
`framework.scheduling.numa`.
"""
