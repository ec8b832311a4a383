"""Why a job waits: the verdict of `volcanoio why`, by the same engine."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import msgspec

from volcanoio.client.connection import ClusterConnection
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import State
from volcanoio.compose.why import JobAnswer, explain
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.kube.client import Client as KubeClient
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import ConfigMap
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.loading.registry import PluginError

CONFIG_MAP, KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
"""Where an installed scheduler has its configuration, in namespace volcano-system."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, and what would help.

    `code` is one of docs/reason-codes.md, "" for a job that does not wait. `position` counts from 1 in its queue, after
    the jobs `ahead`; 0 if it is not known. `remedies` were each tried on a copy of the cluster. `answer` has all
    evidence; it is None where the rights to read the cluster are missing and the job's own conditions have to do.
    """

    job: str
    code: str = ""
    message: str = ""
    queue: str = ""
    position: int = 0
    ahead: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
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


async def explain_job(
    cluster: ClusterConnection, name: str, namespace: str, *, group: str, with_remedies: bool = True
) -> Reason:
    """Return why a job waits; `group` is the name of its PodGroup. Raises ClientError."""
    async with cluster.requests(name) as client:
        try:
            simulator, state = await _read(client)
        except (Forbidden, ConfigurationError, PluginError):  # the scheduler's plugins may not be installed here
            return await _by_conditions(client, name, namespace, group)
    try:
        answer = await anyio.to_thread.run_sync(_explain, simulator, state, f"job/{name}", namespace, with_remedies)
    except UnknownTargetError:
        message = "it has no PodGroup yet; do the controllers run?"
        return Reason(job=f"{namespace}/{name}", code=codes.POD_GROUP_NOT_FOUND, message=message)
    return _reason(f"{namespace}/{name}", answer)


def _explain(simulator: Simulator, state: State, target: str, namespace: str, with_remedies: bool) -> JobAnswer:
    answer = explain(simulator, state, target, namespace, with_remedies=with_remedies)
    assert isinstance(answer, JobAnswer)
    return answer


def _reason(job: str, answer: JobAnswer) -> Reason:
    if (found := answer.diagnosis) is None:
        return Reason(job=job, answer=answer)
    return Reason(
        job=job,
        code=found.code,
        message=found.message,
        queue=found.queue,
        position=found.position,
        ahead=found.ahead,
        remedies=tuple(each.text for each in answer.remedies),
        answer=answer,
    )


async def _read(client: KubeClient) -> tuple[Simulator, State]:
    """Return the scheduler's configuration and what it reads. Raises ApiError, ConfigurationError and PluginError."""
    try:
        found = await client.get(kinds.CONFIG_MAP, CONFIG_MAP, "volcano-system")
        text = found.data.get(KEY) if isinstance(found, ConfigMap) else None
    except (NotFound, Forbidden):
        text = None
    simulator = Simulator(SimulateOptions(files=(), configuration=text))
    return simulator, State(objects=await _list(client, simulator.reads))


async def _list(client: KubeClient, reads: Iterable[Kind]) -> list[ApiObject]:
    objects: list[ApiObject] = []
    for kind in sorted(reads, key=lambda kind: kind.resource):
        try:
            objects += await client.list(kind)
        except NotFound:  # the server has no such kind
            continue
    return objects


async def _by_conditions(client: KubeClient, name: str, namespace: str, group: str) -> Reason:
    """Return what the scheduler wrote to the PodGroup of a job."""
    job = f"{namespace}/{name}"
    try:
        found = await client.get(kinds.POD_GROUP, group, namespace)
    except NotFound:
        return Reason(job=job, code=codes.POD_GROUP_NOT_FOUND, message="it has no PodGroup yet")
    assert isinstance(found, PodGroup)
    waits = [each for each in found.status.conditions if each.type == "Unschedulable" and each.status == "True"]
    if not waits or found.status.phase in ("Running", "Completed"):
        return Reason(job=job, queue=found.spec.queue)
    return Reason(job=job, code=waits[-1].reason, message=waits[-1].message, queue=found.spec.queue)
