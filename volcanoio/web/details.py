"""What the page reads when a user opens a job, a queue or a node: pods, events, logs, manifests and reasons; the past.

Pods come from the user's feed, everything else from the API server, with the user's credentials. The past comes from a
journal, which contains no access rights: the page shows it to users who may list the pods of all namespaces.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import anyio
import anyio.to_thread
import msgspec
import yaml

from volcanoio.compose.journals.live_timeline import belongs_to, read_timeline
from volcanoio.compose.journals.states import PastStates
from volcanoio.compose.journals.timeline import grouped
from volcanoio.compose.live.conditions import waiting_by_conditions
from volcanoio.compose.live.explaining import explain_running
from volcanoio.compose.live.running_scheduler import RunningScheduler, SchedulerUnavailableError
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import State
from volcanoio.compose.why import CONDITIONS, JobAnswer, explain
from volcanoio.engine.overview import NATIVE
from volcanoio.engine.scheduling.cluster.pod_fields import native_key
from volcanoio.engine.scheduling.diagnosis.answers import QueueAnswer
from volcanoio.engine.scheduling.diagnosis.codes import CODES
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import ContainerStatus, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Queue
from volcanoio.model.times import epoch_or_none
from volcanoio.web.actions import Offer, job_offers, queue_offers
from volcanoio.web.feed import Feed
from volcanoio.web.viewers import Viewer

MOST_EVENTS = 2_000
"""Events of pods that are read of a namespace, in the order of the API server, and shown of a job at most."""
LOG_LINES, MOST_LOG_LINES = 500, 10_000
MANIFESTS = {
    **{kind.kind.lower(): kind for kind in (kinds.JOB, kinds.POD_GROUP, kinds.POD, kinds.QUEUE, kinds.NODE)},
    NATIVE.lower(): kinds.NATIVE_POD_GROUP,
}
"""Kinds whose manifests the page shows."""
_WHY = anyio.CapacityLimiter(1)
"""Explaining takes one core for seconds on a large cluster: one at a time."""
_CYCLE_NOTE = "decided by a scheduling cycle that this page's server ran; the running scheduler was not asked"


class BadInputError(ValueError):
    """A parameter of a request cannot be used; the message names it, the rule and the next step."""


class PodView(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A pod of a job: where it is, and when it was created, scheduled, started and finished (epoch seconds)."""

    name: str
    task: str = ""
    index: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    containers: tuple[str, ...] = ()
    created: float | None = None
    scheduled: float | None = None
    started: float | None = None
    finished: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    terminating: bool = False


class EventView(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A Kubernetes Event about `object`, which is `Kind/name`."""

    at: float | None
    object: str
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 1


class TaskView(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A task of a Job as its spec describes it."""

    name: str
    replicas: int
    min_available: int | None = None
    images: tuple[str, ...] = ()


class JobDetails(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A Job or PodGroup with its pods; `may` are the actions on it, `phases` its phases so far with their times."""

    pods: list[PodView]
    tasks: list[TaskView] = []
    phases: list[tuple[str, float | None]] = []
    retries: int = 0
    max_retry: int = 0
    may: dict[str, Offer] = {}


ROW_KINDS = (kinds.JOB.kind, kinds.POD_GROUP.kind, NATIVE)
"""Kinds of the rows that have a page of their own."""


def _row_key(kind: str, namespace: str, name: str) -> str:
    if kind == NATIVE:
        return native_key(namespace, name)
    return f"{namespace}/{name}" if kind == kinds.JOB.kind else f"{namespace}/pg/{name}"


async def job_details(viewer: Viewer, feed: Feed, namespace: str, name: str, kind: str) -> JobDetails:
    """Return a job's pods, phases and actions. Raises ApiError, TransportError."""
    key = _row_key(kind, namespace, name)
    pods = feed.objects.get(kinds.POD, {})
    views = [pod_view(pod) for pod in map(pods.get, feed.overview.pods_of(key)) if isinstance(pod, Pod)]
    details = JobDetails(pods=sorted(views, key=lambda pod: (pod.task, _number(pod.index), pod.name)))
    if kind != kinds.JOB.kind:
        if feed.overview.job(key) is None:
            await viewer.client.get(MANIFESTS[kind.lower()], name, namespace)  # raises what is wrong
        return details
    job = await viewer.client.get(kinds.JOB, name, namespace)
    assert isinstance(job, Job)
    details.tasks = [
        TaskView(
            name=task.name, replicas=task.replicas, min_available=task.min_available, images=_images(task.template)
        )
        for task in job.spec.tasks
    ]
    details.phases = [(one.status, epoch_or_none(one.last_transition_time)) for one in job.status.conditions]
    details.retries, details.max_retry = job.status.retry_count, job.spec.max_retry
    details.may = await job_offers(viewer, job)
    return details


def pod_view(pod: Pod) -> PodView:
    """Return what the page shows of a pod."""
    meta, status = pod.metadata, pod.status
    scheduled = next(
        (c.last_transition_time for c in status.conditions if c.type == "PodScheduled" and c.status == "True"), None
    )
    blocked = next((c for c in status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    ended = [one.state.terminated for one in status.container_statuses if one.state.terminated is not None]
    waiting = next((one.state.waiting for one in status.container_statuses if one.state.waiting), None) or {}
    failed = next((one for one in ended if one.exit_code), ended[0] if ended else None)
    finished = [at for one in ended if (at := epoch_or_none(one.finished_at)) is not None]
    is_over = status.phase in ("Succeeded", "Failed")
    return PodView(
        name=meta.name,
        task=meta.labels.get(names.TASK_SPEC) or meta.annotations.get(names.TASK_SPEC, ""),
        index=meta.labels.get(names.TASK_INDEX, ""),
        node=pod.spec.node_name,
        phase=status.phase,
        reason=status.reason
        or (failed.reason if failed is not None else str(waiting.get("reason", "")))
        or (blocked.reason if blocked is not None else ""),
        message=status.message
        or (failed.message if failed is not None else str(waiting.get("message", "")))
        or (blocked.message if blocked is not None else ""),
        containers=tuple(one.name for one in (*pod.spec.containers, *pod.spec.init_containers)),
        created=epoch_or_none(meta.creation_timestamp),
        scheduled=epoch_or_none(scheduled),
        started=_started(status.container_statuses),
        finished=max(finished) if finished and is_over else None,
        exit_code=failed.exit_code if failed is not None else None,
        restarts=sum(one.restart_count for one in status.container_statuses),
        terminating=meta.deletion_timestamp is not None,
    )


def _started(statuses: Iterable[ContainerStatus]) -> float | None:
    """Return when the first container started."""
    found = []
    for one in statuses:
        if one.state.terminated is not None:
            found.append(epoch_or_none(one.state.terminated.started_at))
        elif one.state.running is not None:
            found.append(epoch_or_none(one.state.running.get("startedAt")))
    return min((at for at in found if at is not None), default=None)


def _images(template: Manifest) -> tuple[str, ...]:
    containers = (template.get("spec") or {}).get("containers") or ()
    return tuple(str(one.get("image", "")) for one in containers if isinstance(one, dict))


def _number(index: str) -> int:
    return int(index) if index.isdigit() else 0


class NodeDetails(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The pods on a node, each with the job that it belongs to."""

    pods: list[tuple[str, str, PodView]]


def node_details(feed: Feed, name: str) -> NodeDetails:
    """Return the pods on a node: namespace, name of the job, pod."""
    pods = feed.objects.get(kinds.POD, {})
    found = [pod for pod in map(pods.get, feed.overview.pods_on(name)) if isinstance(pod, Pod)]
    views = [(pod.metadata.namespace, pod.metadata.labels.get(names.JOB_NAME, ""), pod_view(pod)) for pod in found]
    return NodeDetails(pods=sorted(views, key=lambda one: (one[0], one[2].name)))


async def queue_details(viewer: Viewer, name: str) -> dict[str, Offer]:
    """Return the actions on a queue. Raises ApiError, TransportError."""
    queue = await viewer.client.get(kinds.QUEUE, name)
    assert isinstance(queue, Queue)
    return await queue_offers(viewer, queue)


async def events(client: Client, feed: Feed, namespace: str, name: str, kind: str) -> list[EventView]:
    """Return the Events about a job, its PodGroup and its pods, newest last. Raises ApiError, TransportError."""
    key = _row_key(kind, namespace, name)
    row = feed.overview.job(key)
    pods = {one.rpartition("/")[2] for one in feed.overview.pods_of(key)}
    wanted = [(kinds.JOB.kind, name)] if kind == kinds.JOB.kind else []
    if row is not None and row.group:
        wanted.append((kinds.POD_GROUP.kind, row.group))
    version = f"involvedObject.apiVersion={kinds.NATIVE_POD_GROUP.api_version}," if kind == NATIVE else ""
    found: list[Manifest] = []
    for about, of in wanted:
        selector = f"{version}involvedObject.kind={about},involvedObject.name={of}"
        found += await client.list_raw(kinds.EVENT, namespace, field_selector=selector)
    job = feed.objects.get(kinds.JOB, {}).get(key)
    belongs = belongs_to(job if isinstance(job, Job) else name)
    selector = f"involvedObject.kind={kinds.POD.kind}"
    read = 0
    async for one in client.scan(kinds.EVENT, namespace, field_selector=selector):
        read += 1
        subject = one.get("involvedObject", {}).get("name", "")
        if subject in pods or (kind == kinds.JOB.kind and belongs(kinds.POD.kind, subject)):
            found.append(one)
        if read == MOST_EVENTS:
            break
    return sorted(map(event_view, found), key=lambda event: event.at or 0.0)[-MOST_EVENTS:]


def event_view(event: Manifest) -> EventView:
    """Return what the page shows of an Event."""
    about = event.get("involvedObject") or {}
    series = event.get("series") or {}
    at = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
    )
    return EventView(
        at=epoch_or_none(at or (event.get("metadata") or {}).get("creationTimestamp")),
        object=f"{about.get('kind', '')}/{about.get('name', '')}",
        type=str(event.get("type", "")),
        reason=str(event.get("reason", "")),
        message=str(event.get("message", "")),
        count=int(series.get("count") or event.get("count") or 1),
    )


async def steps(client: Client, namespace: str, name: str) -> list[tuple[float, str, str]]:
    """Return what happened to a Job: time, kind and sentence. Raises UnknownJobError, ApiError, TransportError."""
    entries = (await read_timeline(client, name, namespace)).entries
    return [(each.at, str(each.kind), each.text) for each in grouped(entries)]


async def manifest(client: Client, kind: Kind, namespace: str, name: str) -> str:
    """Return an object as YAML, without managed fields. Raises ApiError, TransportError."""
    found = await client.get_raw(kind, name, namespace if kind.namespaced else "")
    found.get("metadata", {}).pop("managedFields", None)
    ordered = {"apiVersion": kind.api_version, "kind": kind.kind, **found}
    return str(yaml.dump(ordered, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120))


# -- logs

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def checked_name(field: str, text: str, *, required: bool = True) -> str:
    """Return a name of an object from a request. Raises BadInputError."""
    if (not text and not required) or _NAME.fullmatch(text):
        return text
    raise BadInputError(f'{field}: "{text[:60]}" is not the name of an object; use a-z, 0-9, "-" and "."')


def line_count(text: str) -> int:
    """Return a number of log lines from a request. Raises BadInputError."""
    if not text:
        return LOG_LINES
    if not text.isdecimal() or not 1 <= int(text) <= MOST_LOG_LINES:
        raise BadInputError(f'tail: "{text[:20]}" is not a number of lines from 1 to {MOST_LOG_LINES}')
    return int(text)


class LogRequest(NamedTuple):
    """The last `tail` lines of a container's log; `previous` is that before the last restart."""

    namespace: str
    pod: str
    container: str = ""
    tail: int = LOG_LINES
    previous: bool = False

    @property
    def path(self) -> str:
        """Path of the log."""
        return kinds.POD.path(self.namespace, self.pod, "log")

    def query(self) -> dict[str, str]:
        """Return the parameters of the request."""
        return {
            "tailLines": str(self.tail),
            **({"container": self.container} if self.container else {}),
            **({"previous": "true"} if self.previous else {}),
        }


async def log_text(client: Client, log: LogRequest) -> bytes:
    """Return a log. Raises StreamRefused, TransportError."""
    async with client.transport.stream(log.path, query={**log.query(), "limitBytes": str(4 << 20)}) as lines:
        return b"".join([b"%s\n" % line async for batch in lines for line in batch])


@asynccontextmanager
async def followed_log(client: Client, log: LogRequest) -> AsyncIterator[AsyncIterator[list[bytes]]]:
    """Follow a log as batches of lines. Raises StreamRefused, TransportError."""
    async with client.transport.stream(log.path, query={**log.query(), "follow": "true"}) as lines:
        yield lines


# -- why


class WhyView(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """An answer of `why` with the meaning of its code; `notes` name its source and its limits.

    Without `answer` it cannot be explained.
    """

    answer: JobAnswer | QueueAnswer | None = None
    meaning: str = ""
    notes: list[str] = []


Configure: TypeAlias = Callable[[Client], Awaitable[tuple[str | None, list[str]]]]


class Explainer:
    """Explains why something waits: by the running scheduler where it answers at the API server, else by a cycle here.

    `options` are the scheduler's; `configuration` returns the one in force (None: the default) and notes on it, `now`
    the cluster's time.
    """

    def __init__(self, options: SimulateOptions, configuration: Configure, now: Callable[[], float]) -> None:
        self._options = options
        self._configuration = configuration
        self._now = now

    async def why(self, viewer: Viewer, feed: Feed, target: str, namespace: str, *, remedies: bool) -> WhyView:
        """Return why a job or queue waits. Raises ApiError, TransportError, UnknownTargetError."""
        missing = [
            kind.resource for kind in (kinds.QUEUE, kinds.NODE, kinds.POD_GROUP, kinds.POD) if kind not in feed.readable
        ]
        if missing or feed.namespace:
            what = ", ".join(missing) if missing else "all namespaces"
            notes = [f"from conditions alone: the scheduler's view needs the right to list {what}"]
            if target.startswith("queue/"):
                return WhyView(notes=notes)
            found = await waiting_by_conditions(viewer.client, target, namespace)
            return _with_meaning(JobAnswer.of(found, CONDITIONS), notes)
        jobs = [job for job in feed.objects.get(kinds.JOB, {}).values() if isinstance(job, Job)]
        try:
            scheduler = RunningScheduler(viewer.client.transport)
            async with _WHY if remedies else nullcontext():
                answer = await explain_running(
                    scheduler, target, namespace, jobs=jobs if remedies else None, options=self._options
                )
        except SchedulerUnavailableError:
            pass
        else:
            return _with_meaning(answer, ["answered by the running scheduler"])
        text, notes = await self._configuration(viewer.client)
        options = replace(self._options, configuration=text, now=self._now())
        simulator = await anyio.to_thread.run_sync(Simulator, options)
        objects, more = await _objects(viewer.client, feed, simulator.reads)
        work = partial(explain, simulator, State(objects=objects, jobs=jobs), target, namespace, with_remedies=remedies)
        answer = await anyio.to_thread.run_sync(work, limiter=_WHY)
        return _with_meaning(answer, [_CYCLE_NOTE, *notes, *more])


def _with_meaning(answer: JobAnswer | QueueAnswer, notes: list[str]) -> WhyView:
    diagnosis = answer.diagnosis if isinstance(answer, JobAnswer) else None
    known = CODES.get(diagnosis.code) if diagnosis is not None else None
    return WhyView(answer=answer, meaning=known.meaning if known is not None else "", notes=notes)


async def _objects(client: Client, feed: Feed, reads: Iterable[Kind]) -> tuple[list[ApiObject], list[str]]:
    """Return the objects that the scheduler reads, and a note about those that the user may not read."""
    objects, refused = list[ApiObject](), list[str]()
    for kind in sorted(reads, key=lambda kind: kind.resource):
        if kind in feed.objects:
            objects += feed.objects[kind].values()
            continue
        try:
            objects += await client.list(kind)
        except NotFound:
            continue
        except Forbidden:
            refused.append(kind.resource)
    return objects, [f"you may not list {', '.join(refused)}: the answer ignores them"] if refused else []


# -- the past


REFRESH_SECONDS = 10.0
"""Seconds for which the journal is not looked at again."""
TREND_POINTS = 600


class NoHistoryError(Exception):
    """There is no past to show; the message contains the next step."""


class Span(msgspec.Struct, frozen=True):
    """First and last time that can be shown (epoch seconds), seconds between two, and (time, running, waiting) pods."""

    start: float
    end: float
    step: float
    trend: list[tuple[float, int, int]]


class History:
    """States of the cluster at past times, from a journal's directory; None if there is no journal."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._states: PastStates | None = None
        self._read_at = float("-inf")
        self._reading = anyio.Lock()

    async def span(self) -> Span:
        """Return what can be shown, now that the journal has grown. Raises NoHistoryError, JournalError."""
        states = await self._read()
        if (found := states.span) is None:
            raise NoHistoryError("the journal has no event yet; try again in a moment")
        start, end = found
        trend = [(each.at, each.running, each.pending) for each in states.totals(TREND_POINTS)]
        return Span(start=start, end=end, step=60.0 if end - start > 3600 else 1.0, trend=trend)

    async def at(self, moment: float) -> bytes:
        """Return all rows at a time, as JSON. Raises NoHistoryError, JournalError."""
        states = self._states
        if states is None or states.span is None:
            states = await self._read()
        return await anyio.to_thread.run_sync(lambda: msgspec.json.encode(states.at(moment)))

    async def _read(self) -> PastStates:
        if self._directory is None:
            raise NoHistoryError(
                "no journal is recorded; start `volcanoio up` or the scheduler with --journal DIR, "
                "or this page with --journal of a scheduler's journal"
            )
        async with self._reading:
            if self._states is None:
                self._states = PastStates(self._directory)
            if time.monotonic() - self._read_at > REFRESH_SECONDS:
                await anyio.to_thread.run_sync(self._states.refresh)
                self._read_at = time.monotonic()
            return self._states
