"""Tasks, nodes, jobs and queues as JSON of Volcano's Go structs: fields without tags have their Go names.

Source: Volcano pkg/scheduler/api (job_info.go, node_info.go, queue_info.go, resource_info.go). What this scheduler does
not keep is left out; Go's decoder then has the zero value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import Job, Nodes, QueueView, Task
from volcanoio.model import kinds
from volcanoio.model.names import REVOCABLE_ZONE
from volcanoio.model.resources import CPU, MEMORY, PODS

Json = dict[str, Any]
_READY = 1


def resource(amounts: Mapping[str, int]) -> Json:
    """A Resource: milli-cores, bytes, and thousandths of everything else but pods."""
    scalars = {name: float(amount) for name, amount in amounts.items() if name not in (CPU, MEMORY)}
    return {
        "MilliCPU": float(amounts.get(CPU, 0)),
        "Memory": float(amounts.get(MEMORY, 0)),
        "ScalarResources": scalars or None,
        "MaxTaskNum": amounts.get(PODS, 0),
    }


def task_info(task: Task) -> Json:
    """A TaskInfo; the status is one bit, in the order of the states."""
    requests = resource(task.shape.requests)
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": requests,
        "InitResreq": requests,
        "NodeName": task.node,
        "Status": 1 << int(task.status),
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.shape.best_effort,
        "Pod": kinds.POD.manifest(task.pod),
    }


def node_infos(nodes: Nodes, rows: Iterable[int], resources: Iterable[str]) -> list[Json]:
    """NodeInfos of some rows, with these resources; without the tasks on them."""
    names = sorted(resources)
    columns: dict[str, Mapping[str, NDArray[np.int64]]] = {
        "Idle": {name: nodes.idle(name) for name in names},
        "Used": {name: nodes.used(name) for name in names},
        "Allocatable": {name: nodes.allocatable(name) for name in names},
        "FutureIdle": {name: nodes.future_idle(name) for name in names},
    }
    found = []
    for row in rows:
        amounts = {what: {name: int(column[row]) for name, column in by.items()} for what, by in columns.items()}
        future = amounts.pop("FutureIdle")
        coming = {name: future[name] - amounts["Idle"][name] for name in names}
        node = nodes.objects[row]
        found.append(
            {
                "Name": nodes.names[row],
                "Node": kinds.NODE.manifest(node),
                "State": {"Phase": _READY, "Reason": ""},
                "Releasing": resource({name: max(amount, 0) for name, amount in coming.items()}),
                "Pipelined": resource({name: max(-amount, 0) for name, amount in coming.items()}),
                "RevocableZone": node.metadata.labels.get(REVOCABLE_ZONE, ""),
                **{what: resource(values) for what, values in amounts.items()},
                "Capacity": resource(amounts["Allocatable"]),
            }
        )
    return found


def job_info(job: Job, *, tasks: bool = True) -> Json:
    """A JobInfo, with or without its tasks."""
    return {
        "UID": job.key,
        "PgUID": job.uid,
        "Name": job.key.partition("/")[2],
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "TaskMinAvailable": dict(job.role_minimums),
        "Allocated": resource(job.allocated),
        "TotalRequest": resource(job.requested),
        "CreationTimestamp": job.created or None,
        "PodGroup": kinds.POD_GROUP.manifest(job.group),
        "Tasks": {task.uid: task_info(task) for task in job.tasks} if tasks else None,
    }


def queue_info(queue: QueueView) -> Json:
    """A QueueInfo."""
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": queue.weight,
        "Queue": kinds.QUEUE.manifest(queue.object),
    }
