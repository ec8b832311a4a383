"""`AsyncClient`: submits jobs to a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import msgspec

from volcanoio.client.connection import ClusterConnection
from volcanoio.client.errors import ClientError, InvalidJob
from volcanoio.client.job import AsyncJob, Result
from volcanoio.client.shards import Row, Work, sharded_job
from volcanoio.client.specification import JobOptions, job_manifest, read_job
from volcanoio.compose.options import LocalOptions
from volcanoio.kube.decoding import without_nulls
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job


class AsyncClient:
    """Client of a cluster, for coroutines of asyncio; `Client` is the same for other code, with the same arguments.

    It connects on the first request. All errors are ClientErrors.
    """

    def __init__(
        self,
        kubeconfig: str | Path | None = None,
        *,
        context: str = "",
        namespace: str = "",
        local: bool | LocalOptions = False,
    ) -> None:
        self._cluster = ClusterConnection(kubeconfig, context, namespace, local)

    async def __aenter__(self) -> Self:
        """Connect; raises Unreachable without a usable kubeconfig."""
        async with self._cluster.requests():
            return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; submitted jobs keep running, those of an embedded cluster end with it."""
        await self.close()

    async def close(self) -> None:
        """Close the connection, and stop an embedded cluster."""
        await self._cluster.close()

    @property
    def server(self) -> str:
        """The address of the API server; "" before the first request."""
        return self._cluster.server

    @property
    def kubeconfig(self) -> Path | None:
        """The kubeconfig of an embedded cluster, for kubectl; None before the first request and for other clusters."""
        return self._cluster.embedded

    async def submit(self, manifest: Manifest | str | Path | None = None, /, **job: Unpack[JobOptions]) -> AsyncJob:
        """Create a job from keyword arguments, or from a manifest or the path of one, and return it at once.

        Raises InvalidJob for arguments, Refused with the server's sentence.
        """
        if manifest is not None and job:
            raise InvalidJob(f"give a manifest or keyword arguments such as {next(iter(job))}=, not both")
        return await self._create(read_job(manifest) if manifest is not None else job_manifest(job))

    async def run(
        self,
        manifest: Manifest | str | Path | None = None,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in AsyncJob.wait
        start_timeout: float | None = None,
        progress: bool | None = None,
        **job: Unpack[JobOptions],
    ) -> Result:
        """Submit a job and wait until it has completed; see `AsyncJob.wait` for limits and progress.

        Raises what `submit` raises, JobFailed with the pod, its exit code and the end of its log, Unschedulable with a
        reason code, and Timeout. When the wait is interrupted, by Ctrl-C or an error, the job keeps running.
        """
        submitted = await self.submit(manifest, **job)
        return await submitted.result(timeout=timeout, start_timeout=start_timeout, progress=progress)

    async def map(
        self,
        work: Work,
        /,
        *,
        shards: int | None = None,
        days: tuple[date | str, date | str] | None = None,
        rows: Iterable[Row] | None = None,
        **job: Unpack[JobOptions],
    ) -> AsyncJob:
        """Create one job with a pod per shard: N shards, the days from a first to a last one, or rows.

        A command finds its shard in variables: VC_TASK_INDEX, VC_SHARDS, and for days and rows VC_SHARD (the day, the
        value, or the row as JSON), with a variable for each name of a row. A function gets its shard as argument: the
        index, a date, or the row. It runs from its source text, so that the image needs python3 and the libraries that
        it imports; `result()` has what it returned. Shards start as there is room (min_available=1), and the job
        completes when all have succeeded. Raises InvalidJob and Refused.
        """
        plan = sharded_job(work, job, shards=shards, days=days, rows=rows)
        created = await self._create(plan.job)
        if plan.data:
            try:
                async with self._cluster.requests() as client:
                    await client.create(kinds.CONFIG_MAP, plan.config_map(created.name, created.namespace, created.uid))
            except BaseException:  # its pods would wait for the table forever
                with suppress(ClientError):
                    await created.cancel()
                raise
        return created

    async def job(self, name: str, *, namespace: str = "") -> AsyncJob:
        """Return an existing job; raises JobNotFound."""
        async with self._cluster.requests(name) as client:
            found = await client.get(kinds.JOB, name, namespace or self._cluster.namespace)
        assert isinstance(found, Job)
        return AsyncJob(self._cluster, found)

    async def jobs(self, *, namespace: str = "", queue: str = "") -> list[AsyncJob]:
        """List the jobs of a namespace, by default the client's, and of a queue if one is given; oldest first."""
        async with self._cluster.requests() as client:
            found = await client.list(kinds.JOB, namespace or self._cluster.namespace)
        mine = [each for each in found if isinstance(each, Job) and queue in ("", each.spec.queue)]
        mine.sort(key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))
        return [AsyncJob(self._cluster, each) for each in mine]

    async def _create(self, manifest: Manifest) -> AsyncJob:
        async with self._cluster.requests() as client:
            namespace = manifest.get("metadata", {}).get("namespace") or self._cluster.namespace
            stored = await client.create(kinds.JOB, manifest, namespace=namespace)
        return AsyncJob(self._cluster, msgspec.convert(without_nulls(stored), Job))
