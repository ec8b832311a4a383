"""The pod command of vcctl (volcano-sh/volcano pkg/cli/pod): the pods of a job, a queue or a namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from volcanoio.cli.connection import explained
from volcanoio.cli.errors import CommandError
from volcanoio.cli.tables import columns
from volcanoio.kube.client import Client
from volcanoio.localcluster.apiserver.printing.ages import since
from volcanoio.localcluster.apiserver.printing.pods import view
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job

_HEADER = ("Namespace", "Name", "Ready", "Status", "Restart", "Age")


async def list_pods(client: Client, namespace: str, job: str, queue: str) -> None:
    """Print pods as columns, sorted; `namespace` "" lists all namespaces and shows theirs. "" for job or queue is any.

    Raises CommandError for a job that is not in the queue.
    """
    with explained():
        if job and queue and namespace:
            found = await client.get(kinds.JOB, job, namespace)
            if isinstance(found, Job) and found.spec.queue != queue:
                msg = f'--queue: job {job} is in queue {found.spec.queue}, not "{queue}"; leave one of the two out'
                raise CommandError(msg)
        pods = await client.list_raw(kinds.POD, namespace)
    rows = sorted(_rows(pods, job, queue))
    if not rows:
        print("No resources found")
        return
    first = 0 if not namespace else 1
    widths = [max(len(row[column]) for row in (_HEADER, *rows)) + 3 for column in range(len(_HEADER))]
    print(columns(widths[first:], _HEADER[first:], [row[first:] for row in rows]))


def _rows(pods: Iterable[Manifest], job: str, queue: str) -> Iterator[tuple[str, ...]]:
    now = datetime.now(UTC)
    for pod in pods:
        meta = pod["metadata"]
        labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        queues = (labels.get(names.QUEUE_NAME), annotations.get(names.QUEUE_NAME_ANNOTATION))
        if (job and labels.get(names.JOB_NAME) != job) or (queue and queue not in queues):
            continue
        shown = view(pod, now)
        age = since(meta.get("creationTimestamp"), now)
        yield meta.get("namespace", ""), meta["name"], shown.ready, shown.status, shown.restarts, age
