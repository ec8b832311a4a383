"""What happens to a job while it happens: versions of the stored object, and the lines that its pods write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from time import monotonic

import anyio
import msgspec
from anyio.abc import ObjectSendStream

from volcanoio.client.connection import ClusterConnection
from volcanoio.client.errors import ClientError, Unreachable
from volcanoio.compose.live.job_pods import default_container, pod_order, read_container_log, started_run
from volcanoio.kube.errors import BadRequest, Expired, Forbidden, NotFound
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod

_PAUSE = 1.0
"""Seconds until a lost server is asked again, and between two reads for users who may not watch."""
_PATIENCE = 30.0
"""Seconds for which a lost server is asked again."""
_MOST_STREAMS = 200
"""Pods whose logs are followed at once; each has a connection."""


class LogLine(msgspec.Struct, frozen=True):
    """A line that a pod of the job wrote."""

    pod: str
    text: str

    def __str__(self) -> str:
        """Return the line after the name of its pod."""
        return f"{self.pod}: {self.text}"


class Versions:
    """The last version of a job that was not received yet, or the error that ended the watch."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._job: Job | None = None
        self._error: ClientError | None = None

    def put(self, job: Job) -> None:
        """Replace the version."""
        self._job = job
        self._changed.set()

    def fail(self, error: ClientError) -> None:
        """End the versions."""
        self._error = error
        self._changed.set()

    async def receive(self) -> Job:
        """Wait for a version that was not received yet. Raises the error that ended the watch."""
        await self._changed.wait()
        if self._error is not None:
            raise self._error
        self._changed.clear()
        assert self._job is not None
        return self._job


@asynccontextmanager
async def versions_of(cluster: ClusterConnection, read: Callable[[], Awaitable[Job]]) -> AsyncIterator[Versions]:
    """Provide the versions of a stored job, beginning with the current one, which `read` returns."""
    versions = Versions()
    task = asyncio.create_task(_watch(cluster, read, versions))
    try:
        yield versions
    finally:
        await stop(task)


async def _watch(cluster: ClusterConnection, read: Callable[[], Awaitable[Job]], versions: Versions) -> None:
    """Pass on every version until the watch is cancelled or a lost server does not return."""
    lost = None
    while True:
        try:
            current = await read()
            versions.put(current)
            lost = None
            await _watch_from(cluster, current, versions)
        except Unreachable as error:
            lost = lost or monotonic()
            if monotonic() - lost > _PATIENCE:
                versions.fail(error)
                return
            await anyio.sleep(_PAUSE)
        except ClientError as error:
            versions.fail(error)
            return


async def _watch_from(cluster: ClusterConnection, job: Job, versions: Versions) -> None:
    """Pass on versions after this one until the server ends the watch."""
    meta = job.metadata
    async with cluster.requests(meta.name) as client:
        try:
            async with client.watch(
                kinds.JOB,
                meta.namespace,
                resource_version=meta.resource_version,
                field_selector=f"metadata.name={meta.name}",
            ) as changes:
                async for change in changes:
                    if change.type == "DELETED":
                        return  # reading it again reports what became of it
                    if isinstance(change.object, Job):
                        versions.put(change.object)
        except Expired:
            return
        except Forbidden:  # as with Volcano's vcjob-editor-role: it is read again instead
            await anyio.sleep(_PAUSE)


async def pods_of(cluster: ClusterConnection, job: Job) -> list[Pod]:
    """List the pods of a job, by task and index."""
    async with cluster.requests(job.metadata.name) as client:
        found = await client.list(kinds.POD, job.metadata.namespace, label_selector=_selector(job))
    pods = [pod for pod in found if isinstance(pod, Pod) and _is_of(pod, job)]
    return sorted(pods, key=pod_order)


async def read_logs(
    cluster: ClusterConnection, pods: Iterable[Pod], *, tail: int | None, follow: bool = False
) -> AsyncGenerator[LogLine, None]:
    """Yield the lines of the default container of each pod; none of pods that have not started or are gone."""
    for pod in pods:
        query = {"container": default_container(pod), "follow": "true" if follow else "false"}
        if tail is not None:
            query["tailLines"] = str(tail)
        async with cluster.requests() as client:
            with suppress(BadRequest, NotFound):
                async with aclosing(read_container_log(client, pod, query)) as batches:
                    async for batch in batches:
                        for line in filter(None, batch):
                            yield LogLine(pod.metadata.name, line.decode("utf-8", "replace"))


async def follow_logs(
    cluster: ClusterConnection, job: Job, *, ended: Callable[[], Awaitable[object]], tail: int | None
) -> AsyncGenerator[LogLine, None]:
    """Yield the lines of all pods as they are written, until `ended` returns and all streams have ended."""
    send, receive = anyio.create_memory_object_stream[LogLine](1000)
    task = asyncio.create_task(_follow(cluster, job, ended, send, tail))
    try:
        async for line in receive:
            yield line
        await task
    finally:
        receive.close()
        await stop(task)


async def _follow(
    cluster: ClusterConnection,
    job: Job,
    ended: Callable[[], Awaitable[object]],
    send: ObjectSendStream[LogLine],
    tail: int | None,
) -> None:
    limit = asyncio.Semaphore(_MOST_STREAMS)
    followed: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def copy(pod: Pod) -> None:
        async with limit:
            async for line in read_logs(cluster, [pod], tail=tail, follow=True):
                await send.send(line)

    def follow(pod: Pod) -> None:
        run = started_run(pod, default_container(pod))
        if run is not None and run not in followed:
            followed[run] = asyncio.create_task(copy(pod))

    watching = asyncio.create_task(_watch_pods(cluster, job, follow))
    async with send:
        try:
            await ended()
            for pod in await pods_of(cluster, job):
                follow(pod)
            await asyncio.gather(*followed.values())
        finally:
            for task in (watching, *followed.values()):
                task.cancel()


async def _watch_pods(cluster: ClusterConnection, job: Job, see: Callable[[Pod], None]) -> None:
    """Call `see` with the pods of a job at every change; a refused or lost watch is opened again."""
    while True:
        with suppress(ClientError):
            async with (
                cluster.requests() as client,
                client.watch(kinds.POD, job.metadata.namespace, label_selector=_selector(job)) as changes,
            ):
                async for change in changes:
                    if isinstance(change.object, Pod) and _is_of(change.object, job):
                        see(change.object)
        await anyio.sleep(_PAUSE)


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # its reader has gone


def _selector(job: Job) -> str:
    return f"{names.JOB_NAME}={job.metadata.name}"


def _is_of(pod: Pod, job: Job) -> bool:
    return any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references)
