"""`volcanoio logs`: the logs of all pods of a job, of a task, or of one pod, once or as they are written."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from volcanoio.cli.connection import Cluster
from volcanoio.cli.look import tables
from volcanoio.cli.look.following import Following, Selected, following
from volcanoio.cli.output import coloured
from volcanoio.cli.terminal import CommandError, UsageError, unknown_name
from volcanoio.compose.live.job_pods import default_container, pod_order, read_container_log, started_run
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


class LogOptions(NamedTuple):
    """The options of the command; `since` is in seconds. `prefix` None begins lines with pods if there are several."""

    follow: bool = False
    tail: int | None = None
    since: float | None = None
    container: str = ""
    previous: bool = False
    timestamps: bool = False
    prefix: bool | None = None
    max_log_requests: int = 50

    def query(self, container: str, *, is_new: bool = False) -> dict[str, str]:
        """Return the query of a log request; of pods that start later all lines are read."""
        asked = {"container": container}
        if self.tail is not None and not is_new:
            asked["tailLines"] = str(self.tail)
        if self.since is not None and not is_new:
            asked["sinceSeconds"] = str(max(1, math.ceil(self.since)))
        flags = {"follow": self.follow, "previous": self.previous, "timestamps": self.timestamps}
        return asked | {name: "true" for name, given in flags.items() if given}


async def print_logs(cluster: Cluster, target: str, options: LogOptions) -> None:
    """Print the logs of `JOB`, `JOB/TASK` or `JOB/TASK/INDEX`; raises CommandError if there is nothing to read."""
    name, *rest = target.split("/")
    job = await cluster.get(kinds.JOB, name)
    assert isinstance(job, Job)
    selected = pods_of(job, rest)
    is_one = len(rest) == 2 or sum(task.replicas for task in job.spec.tasks) == 1
    with_prefix = not is_one if options.prefix is None else options.prefix
    if options.follow:
        await LogFollower(cluster, job, options, _write, with_prefix=with_prefix).run(selected)
        return
    pods = _pods((await selected.listed(cluster)).values())
    if not pods:
        raise CommandError(f"{target} has no pods now; the job is {tables.phase_of(job)}. See: volcanoio why {name}")
    problems = []
    for number, pod in enumerate(pods):
        try:
            async for batch in read_log(cluster, pod, options):
                _write(batch, _prefix(pod, number) if with_prefix else "")
        except ApiError as error:
            problems.append(f"{pod.metadata.name}: {error.message}")
    if len(problems) == len(pods):
        raise CommandError("\n".join(problems[:5]) + ("\n…" if len(problems) > 5 else ""))
    for problem in problems:
        print(problem, file=sys.stderr)


def pods_of(job: Job, rest: Sequence[str] = ()) -> Selected:
    """Return the pods of a job, of a task, or that of a task and index. Raises UsageError if there are no such."""
    labels = {names.JOB_NAME: job.metadata.name}
    if len(rest) > 2 or "" in rest:
        raise UsageError(
            f'"{"/".join((job.metadata.name, *rest))}" names no pods; write JOB, JOB/TASK or JOB/TASK/INDEX'
        )
    if rest:
        task = next((each for each in job.spec.tasks if each.name == rest[0]), None)
        if task is None:
            raise unknown_name("task", rest[0], (each.name for each in job.spec.tasks), f"in job {job.metadata.name}")
        labels[names.TASK_SPEC] = task.name
        if len(rest) == 2:
            if not rest[1].isdecimal() or int(rest[1]) >= task.replicas:
                rule = f"the indices of task {task.name} are 0 to {task.replicas - 1}"
                raise UsageError(f'"{rest[1]}" is not an index of a pod; {rule}')
            labels[names.TASK_INDEX] = rest[1]
    return Selected(kinds.POD, job.metadata.namespace, labels=",".join(f"{key}={text}" for key, text in labels.items()))


def read_log(
    cluster: Cluster, pod: Pod, options: LogOptions, *, is_new: bool = False
) -> AsyncGenerator[list[bytes], None]:
    """Yield batches of lines. Raises ApiError if there is no log, TransportError if the connection breaks."""
    container = options.container or default_container(pod)
    return read_container_log(cluster.client, pod, options.query(container, is_new=is_new))


def _pods(found: Iterable[ApiObject]) -> list[Pod]:
    """Return pods by task and index."""
    return sorted((pod for pod in found if isinstance(pod, Pod)), key=pod_order)


def _prefix(pod: Pod, number: int) -> str:
    return f"{coloured(f'[{pod.metadata.name}]', _COLOURS[number % len(_COLOURS)])} "


def _write(batch: list[bytes], prefix: str) -> None:
    print("\n".join(f"{prefix}{line.decode(errors='replace')}" for line in batch), flush=True)


class LogFollower:
    """Streams of the logs of a job's pods: one per started container, also of pods and restarts that come later.

    `write` receives batches of lines and what each line is to begin with.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        options: LogOptions,
        write: Callable[[list[bytes], str], None],
        *,
        with_prefix: bool,
    ) -> None:
        self._write = write
        self._cluster = cluster
        self._job = job
        self._options = options
        self._with_prefix = with_prefix
        self._seen = set[tuple[str, int]]()
        self._open = 0

    async def run(self, selected: Selected) -> None:
        """Print until the job has ended and all its logs are read."""
        meta = self._job.metadata
        job = Selected.one(kinds.JOB, meta.name, meta.namespace)
        async with following(self._cluster, job, selected) as caches, anyio.create_task_group() as streams:
            is_new = False
            while True:
                self._start(caches, streams, is_new=is_new)
                if not self._open and self._has_ended(caches):
                    return
                is_new = True
                await caches.changes.receive()

    def _has_ended(self, caches: Following) -> bool:
        job = caches.objects[kinds.JOB].get(self._job.metadata.key)
        return (
            not isinstance(job, Job)
            or job.metadata.uid != self._job.metadata.uid
            or tables.phase_of(job) in tables.ENDED
        )

    def _start(self, caches: Following, streams: TaskGroup, *, is_new: bool) -> None:
        for pod in _pods(caches.objects[kinds.POD].values()):
            run = started_run(pod, self._options.container or default_container(pod))
            if run is None or run in self._seen:
                continue
            self._seen.add(run)
            self._open += 1
            if self._open > self._options.max_log_requests:
                raise CommandError(
                    f"more than {self._options.max_log_requests} pods are to be followed; name a task as "
                    f"{self._job.metadata.name}/TASK, or raise --max-log-requests"
                )
            streams.start_soon(self._stream, pod, len(self._seen) - 1, is_new, caches.wake)

    async def _stream(self, pod: Pod, number: int, is_new: bool, ended: Callable[[], None]) -> None:
        prefix = _prefix(pod, number) if self._with_prefix else ""
        try:
            async with aclosing(read_log(self._cluster, pod, self._options, is_new=is_new)) as lines:
                async for batch in lines:
                    self._write(batch, prefix)
        except (ApiError, TransportError) as error:
            print(f"{pod.metadata.name}: the log ends here: {error}", file=sys.stderr)
        finally:
            self._open -= 1
            ended()
