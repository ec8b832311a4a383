"""Metrics of other exporters that boards and alerts use, with the labels that the exporters' documentation names.

kube-state-metrics: docs/metrics/workload/pod-metrics.md and docs/metrics/cluster/node-metrics.md. cAdvisor:
docs/storage/prometheus.md, with the labels that the kubelet adds (container, namespace, pod). node-exporter: collectors
cpu and meminfo. prometheus-client: ProcessCollector. Loki: labels of streams.
"""

from __future__ import annotations

SCRAPED = frozenset({"container", "endpoint", "instance", "job", "namespace", "pod", "service"})
"""Labels that Prometheus adds to what it scrapes by a ServiceMonitor."""

KUBE_STATE_METRICS = {
    "kube_node_status_allocatable": {"node", "resource", "unit"},
    "kube_pod_container_resource_requests": {"namespace", "pod", "uid", "container", "node", "resource", "unit"},
    "kube_pod_labels": {"namespace", "pod", "uid", "label_volcano_sh_job_name"},
    "kube_pod_status_phase": {"namespace", "pod", "uid", "phase"},
}
"""`kube_pod_labels` has the labels of --metric-labels-allowlist."""

_CONTAINER = {"container", "id", "image", "name", "namespace", "pod"}
CADVISOR = {
    "container_cpu_usage_seconds_total": {*_CONTAINER, "cpu"},
    "container_memory_working_set_bytes": _CONTAINER,
    "container_network_receive_bytes_total": {*_CONTAINER, "interface"},
    "container_network_transmit_bytes_total": {*_CONTAINER, "interface"},
}

NODE_EXPORTER = {
    "node_cpu_seconds_total": {"cpu", "mode"},
    "node_memory_MemAvailable_bytes": set[str](),
    "node_memory_MemTotal_bytes": set[str](),
}

PROCESS = {
    "process_cpu_seconds_total": set[str](),
    "process_resident_memory_bytes": set[str](),
}
"""Of our own processes, from prometheus-client."""

EXPORTERS: dict[str, set[str]] = {
    name: set(labels) | SCRAPED
    for exporter in (KUBE_STATE_METRICS, CADVISOR, NODE_EXPORTER, PROCESS)
    for name, labels in exporter.items()
}

LOKI_LABELS = {"namespace", "pod", "container", "volcano_sh_job_name"}
"""Labels of log streams of pods (Promtail, Alloy: discovery of pods, with the pod label volcano.sh/job-name kept)."""
