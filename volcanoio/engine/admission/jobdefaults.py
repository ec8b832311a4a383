"""Defaults of a Job (Volcano: pkg/webhooks/admission/jobs/mutate)."""

from __future__ import annotations

from typing import Any

from volcanoio.engine.admission.jobplugins import needed_plugins
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.model import names
from volcanoio.model.base import Manifest

MAX_RETRY = 3


def default_job(job: Manifest, settings: AdmissionSettings) -> None:
    """Set the defaults in place. What has the wrong type is left for validation to name."""
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    spec["queue"] = spec.get("queue") or names.DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or settings.scheduler_name
    spec["maxRetry"] = spec.get("maxRetry") or MAX_RETRY
    tasks = [task for task in _listed(spec.get("tasks")) if isinstance(task, dict)]
    for index, task in enumerate(tasks):
        _default_task(task, index)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(_number(task.get("minAvailable")) for task in tasks)
    plugins = spec.get("plugins")
    if isinstance(plugins, dict):
        for needed in needed_plugins(plugins, settings):
            plugins.setdefault(needed, [])


def _default_task(task: Manifest, index: int) -> None:
    task["name"] = task.get("name") or f"{names.DEFAULT_TASK_SPEC}{index}"
    task["maxRetry"] = task.get("maxRetry") or MAX_RETRY
    if task.get("minAvailable") is None:
        policy = task.get("partitionPolicy")
        partitions = _number(policy.get("minPartitions")) if isinstance(policy, dict) else 0
        if isinstance(policy, dict) and partitions > 0:
            task["minAvailable"] = partitions * _number(policy.get("partitionSize"))
        else:
            task["minAvailable"] = _number(task.get("replicas"))
    template = task.get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    if isinstance(spec, dict) and spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
