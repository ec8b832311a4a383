"""Why a job waits, and until when: the answers of `volcanoio why` and `volcanoio eta`, from the same sources.

The running scheduler is asked first. Where it cannot be asked, one cycle is run here on the cluster's objects; where
these may not be listed, the conditions of the job have to do.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec

from volcanoio.client.connection import ClusterConnection
from volcanoio.client.errors import ClientError
from volcanoio.compose.eta import HISTORY_SECONDS, MOST_JOBS, Eta, estimate
from volcanoio.compose.live.conditions import job_without_group, waiting_by_conditions
from volcanoio.compose.live.explaining import explain_running
from volcanoio.compose.live.reading import MissingRightsError, cluster_state, installed_configuration, jobs_of
from volcanoio.compose.live.running_scheduler import SchedulerUnavailableError, scheduler_of
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import State
from volcanoio.compose.why import CONDITIONS, JobAnswer, explain
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.kube.client import Client as KubeClient
from volcanoio.model import names
from volcanoio.model.kinds import Kind
from volcanoio.runtime.accounting.history_store import HistoryError, Selection, read_history
from volcanoio.runtime.loading.registry import PluginError

_NOT_DECIDED_HERE = (MissingRightsError, ConfigurationError, PluginError)
"""Errors after which no cycle can be run here: objects may not be listed, or plugins of the scheduler are missing."""
_GROUP_READS, _GROUP_PAUSE = 10, 0.3
"""Number of reads in which the PodGroup of a job that was just submitted has to appear, and seconds between two."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, and what would help.

    `code` is one of docs/reason-codes.md, "" for a job that does not wait. `position` counts from 1 in its queue, after
    the jobs `ahead`; 0 if it is not known. `remedies` were each tried on a copy of the cluster. `answer` has all
    evidence. `source` is scheduler, cycle or conditions: the first is the most complete one.
    """

    job: str
    code: str = ""
    message: str = ""
    queue: str = ""
    position: int = 0
    ahead: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    source: str = ""
    answer: JobAnswer | None = None

    def __str__(self) -> str:
        """Return the reason as lines for people."""
        if not self.code:
            return f"{self.job} does not wait"
        lines = [f"{self.job} waits: {self.code}: {self.message}"]
        if self.position:
            after = f", after {', '.join(self.ahead)}" if self.ahead else ""
            lines.append(f"  number {self.position} in queue {self.queue}{after}")
        if self.remedies:
            lines += ["  any one of these helps:", *(f"  - {each}" for each in self.remedies)]
        return "\n".join(lines)


async def explain_job(cluster: ClusterConnection, name: str, namespace: str, *, with_remedies: bool = True) -> Reason:
    """Return why a job waits. Raises ClientError."""
    job = f"{namespace}/{name}"
    async with cluster.requests(name) as client:
        try:
            answer = await _answer(client, cluster, name, namespace, with_remedies=with_remedies)
        except UnknownTargetError:
            if (waiting := await job_without_group(client, f"job/{name}", namespace)) is None:
                raise ClientError(f"there is no job {job} any more") from None
            answer = JobAnswer.of(waiting, CONDITIONS)
    if (found := answer.diagnosis) is None:
        return Reason(job=job, source=answer.source, answer=answer)
    return Reason(
        job=job,
        code=found.code,
        message=found.message,
        queue=found.queue,
        position=found.position,
        ahead=found.ahead,
        remedies=tuple(each.text for each in answer.remedies),
        source=answer.source,
        answer=answer,
    )


async def _answer(
    client: KubeClient, cluster: ClusterConnection, name: str, namespace: str, *, with_remedies: bool
) -> JobAnswer:
    """Return the answer of the first source that has one. Raises UnknownTargetError and ApiError."""
    target = f"job/{name}"
    try:
        reach = scheduler_of(
            client.transport, lease=names.SCHEDULER_NAME, kubeconfigs=cluster.kubeconfigs, context=cluster.context
        )
        async with reach as scheduler:
            jobs = await jobs_of(client, namespace) if with_remedies else None
            answer = await explain_running(scheduler, target, namespace, jobs=jobs)
            assert isinstance(answer, JobAnswer)  # it was asked about a job
            return answer
    except SchedulerUnavailableError:
        pass
    try:
        simulator, state = await read_cluster(client)
    except _NOT_DECIDED_HERE:
        return JobAnswer.of(await waiting_by_conditions(client, target, namespace), CONDITIONS)
    answer = await anyio.to_thread.run_sync(
        lambda: explain(simulator, state, target, namespace, with_remedies=with_remedies)
    )
    assert isinstance(answer, JobAnswer)  # it was asked about a job
    return answer


async def read_cluster(client: KubeClient, also: Collection[Kind] = ()) -> tuple[Simulator, State]:
    """Return a simulator as the cluster's scheduler, and what it reads. Raises ApiError and _NOT_DECIDED_HERE."""
    text, _ = await installed_configuration(client)
    simulator = Simulator(SimulateOptions(files=(), configuration=text))
    return simulator, await cluster_state(client, simulator.reads | set(also))


async def estimate_start(cluster: ClusterConnection, name: str, namespace: str, history: Path | None) -> Eta:
    """Return when a waiting job starts. Raises ClientError."""
    async with cluster.requests(name) as client:
        try:
            for _ in range(_GROUP_READS):
                simulator, state = await read_cluster(client)
                with suppress(UnknownTargetError):
                    return await anyio.to_thread.run_sync(_estimate, simulator, state, name, namespace, history)
                await anyio.sleep(_GROUP_PAUSE)
        except (HistoryError, *_NOT_DECIDED_HERE) as error:
            raise ClientError(str(error)) from None
    raise ClientError(f"job {namespace}/{name} has no PodGroup, which the controllers make; do they run?")


def _estimate(simulator: Simulator, state: State, name: str, namespace: str, history: Path | None) -> Eta:
    recent = Selection(since=simulator.now - HISTORY_SECONDS, most=MOST_JOBS)
    jobs = [] if history is None else read_history(history, recent, with_places=True)
    return estimate(simulator, state, jobs, f"job/{name}", namespace)
