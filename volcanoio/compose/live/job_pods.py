"""Pods of jobs: their order, and the logs of their containers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from volcanoio.kube.client import Client
from volcanoio.kube.errors import error_of
from volcanoio.kube.transport import StreamRefused
from volcanoio.model import kinds, names
from volcanoio.model.core import Pod


def pod_order(pod: Pod) -> tuple[str, str, str, int, str]:
    """Return a key that orders pods by namespace, job, task and index."""
    labels = pod.metadata.labels
    index = labels.get(names.TASK_INDEX) or pod.metadata.name.rpartition("-")[2]
    job = labels.get(names.JOB_NAME, pod.metadata.name)
    number = int(index) if index.isdecimal() else -1
    return pod.metadata.namespace, job, labels.get(names.TASK_SPEC, ""), number, pod.metadata.name


def default_container(pod: Pod) -> str:
    """Return the container whose log is read if none is named, as kubectl chooses it."""
    return pod.metadata.annotations.get("kubectl.kubernetes.io/default-container") or pod.spec.containers[0].name


def started_run(pod: Pod, container: str) -> tuple[str, int] | None:
    """Return the pod's uid and the container's restarts, as each run has a log of its own; None before it starts."""
    for each in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if each.name == container:
            has_started = each.state.running is not None or each.state.terminated is not None
            return (pod.metadata.uid, each.restart_count) if has_started else None
    return None


async def read_container_log(client: Client, pod: Pod, query: Mapping[str, str]) -> AsyncGenerator[list[bytes], None]:
    """Yield batches of lines. Raises ApiError if there is no log, TransportError if the connection breaks."""
    meta = pod.metadata
    try:
        async with client.transport.stream(kinds.POD.path(meta.namespace, meta.name, "log"), query=query) as lines:
            async for batch in lines:
                yield batch
    except StreamRefused as refused:
        raise error_of(refused.response) from None
