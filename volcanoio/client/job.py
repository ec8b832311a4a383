"""`AsyncJob`: a submitted job, and what its owner can ask of it and do with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

import anyio
import msgspec
import yaml

from volcanoio.client.cards import job_card
from volcanoio.client.connection import ClusterConnection
from volcanoio.client.errors import ClientError, InvalidJob, JobFailed, JobNotFound, Timeout, Unschedulable
from volcanoio.client.explanation import Reason, estimate_start, explain_job
from volcanoio.client.following import LogLine, follow_logs, pods_of, read_logs, stop, versions_of
from volcanoio.client.progress import open_progress
from volcanoio.client.shards import results_of
from volcanoio.compose.eta import Eta
from volcanoio.compose.journals.live_timeline import read_timeline
from volcanoio.compose.journals.timeline import Timeline, UnknownJobError, grouped
from volcanoio.framework.arguments import suggestion
from volcanoio.kube.errors import NotFound
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds
from volcanoio.model.batch import FINISHED_PHASES, Job, JobAction, JobPhase
from volcanoio.model.core import ContainerStateTerminated, Event, Pod
from volcanoio.model.times import epoch

FINISHED: Final = "Finished"
"""What `wait` waits for by default: any phase in which a job stays."""
PLACED: Final = "Placed"
"""The job has left Pending: enough of its pods run or have run."""
_ENDED = FINISHED_PHASES | {JobPhase.ABORTED}
"""Phases that end a wait; a job that was suspended before may be resumed."""
_GOALS: dict[str, str] = {goal.lower(): goal for goal in (FINISHED, PLACED, *JobPhase)}
_TICK = 1.0
"""Seconds between two looks at deadlines and the progress."""
_NOT_STARTED = ("StartError", "ContainerCannotRun")
_LOG_LINES = 10
"""Lines of a failed pod's log in an error."""
_FIRST_NOTE, _NOTE_INTERVAL, _NOTE_REST = 2.0, 10.0, 20.0
"""Seconds until the reason is first asked for, and between two questions; and how many times longer the pause is than
the answer took.
"""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job; numbers are of pods, times in epoch seconds (None before they happened)."""

    phase: str
    reason: str = ""
    message: str = ""
    replicas: int = 0
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    retries: int = 0
    created: float | None = None
    started: float | None = None
    finished: float | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it stays in its phase."""
        return self.phase in FINISHED_PHASES


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A job that completed: its pods, its times in seconds, and the `values` that a mapped function returned."""

    job: str
    succeeded: int
    failed: int
    wait: float | None
    run_time: float | None
    values: tuple[Any, ...] = ()


def status_of(job: Job) -> Status:
    """Return the state of a job as it is stored."""
    status = job.status
    phase = status.state.phase or str(JobPhase.PENDING)
    times = {each.status: epoch(each.last_transition_time) for each in status.conditions}
    return Status(
        phase=phase,
        reason=status.state.reason,
        message=status.state.message,
        replicas=sum(task.replicas for task in job.spec.tasks),
        min_available=job.spec.min_available,
        pending=status.pending,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        retries=status.retry_count,
        created=epoch(job.metadata.creation_timestamp),
        started=times.get(str(JobPhase.RUNNING)),
        finished=times.get(phase) if phase in FINISHED_PHASES else None,
    )


class AsyncJob:
    """A job of the cluster. Every request raises Unreachable, Refused and, once it is deleted, JobNotFound."""

    def __init__(self, cluster: ClusterConnection, stored: Job) -> None:
        self._cluster = cluster
        self._stored = stored
        self.name = stored.metadata.name
        self.namespace = stored.metadata.namespace
        self.uid = stored.metadata.uid

    def __repr__(self) -> str:
        phase = self._stored.status.state.phase or JobPhase.PENDING
        return f"<{type(self).__name__} {self.namespace}/{self.name} {phase}>"

    def _repr_html_(self) -> str:
        """Return the job as a card for notebooks, as it was last seen."""
        return job_card(self._stored)

    @property
    def status(self) -> Awaitable[Status]:
        """Its current state, which `await` reads from the cluster."""
        return _Reading(self._status)

    async def _status(self) -> Status:
        return status_of(await self._read())

    async def wait(
        self,
        until: str = FINISHED,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it has an error of its own
        start_timeout: float | None = None,
        progress: bool | None = None,
    ) -> Status:
        """Wait until it is in a phase, by default one in which it stays; cancelling the wait leaves the job running.

        `until` is a phase such as "Running", or "Placed" (it left Pending) or "Finished". Raises
        Timeout after `timeout` seconds; Unschedulable instead if the job is not placed then, or after `start_timeout`
        seconds; JobFailed if it ended in another phase. A job that is suspended counts as ended.
        `progress` draws a bar: by default in terminals and notebooks.
        """
        goal = _goal(until)
        began = monotonic()
        may_be_resumed = self._stored.status.state.phase == JobPhase.ABORTED
        notes = _Notes(partial(self._explain, with_remedies=False))
        with self._noting_interruptions(), open_progress(progress) as display:
            async with versions_of(self._cluster, self._read) as changes, aclosing(notes):
                while True:
                    starts = not _reached(self._stored, PLACED)
                    limit = min(_or_infinite(timeout), _or_infinite(start_timeout) if starts else inf)
                    with anyio.move_on_after(min(_TICK, began + limit - monotonic())):
                        self._stored = await changes.receive()
                    display.show(self._stored, notes.current(self._stored) if display.is_shown else "")
                    phase = self._stored.status.state.phase
                    may_be_resumed = may_be_resumed and phase == JobPhase.ABORTED
                    has_ended = phase in _ENDED and not may_be_resumed
                    if _reached(self._stored, goal) or (has_ended and goal == FINISHED):
                        return status_of(self._stored)
                    if has_ended:
                        raise await self._failure(goal)
                    if monotonic() >= began + limit:
                        raise await self._lateness(limit)

    @contextmanager
    def _noting_interruptions(self) -> Iterator[None]:
        """Add a note that the job keeps running to a cancellation, such as that by Ctrl-C."""
        try:
            yield
        except anyio.get_cancelled_exc_class() as error:
            error.add_note(self._still_running())
            raise

    def _still_running(self) -> str:
        """Return the sentence for users who stop waiting."""
        until = " until its embedded cluster is closed" if self._cluster.embedded else ""
        again = f'client.job("{self.name}").wait() waits again, .cancel() removes it'
        return f"job {self.namespace}/{self.name} keeps running{until}; {again}"

    async def result(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in wait
        start_timeout: float | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Wait for its end and return what it did; raises JobFailed, Unschedulable and Timeout, as `wait` does."""
        status = await self.wait(timeout=timeout, start_timeout=start_timeout, progress=progress)
        if status.phase != JobPhase.COMPLETED:
            raise await self._failure()
        return Result(
            job=f"{self.namespace}/{self.name}",
            succeeded=status.succeeded,
            failed=status.failed,
            wait=_between(status.created, status.started),
            run_time=_between(status.started, status.finished),
            values=await self._values(status.replicas),
        )

    async def pods(self) -> list[Pod]:
        """List its pods, by task and index."""
        return await pods_of(self._cluster, self._stored)

    async def logs(self, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[LogLine]:
        """Yield the lines of its pods: pod after pod, or with `follow` as they are written, until the job has ended.

        `tail` limits each pod to its last lines. Pods that have not started are skipped, or followed once they start.
        """
        if follow:
            lines = follow_logs(self._cluster, self._stored, ended=partial(self.wait, progress=False), tail=tail)
        else:
            lines = read_logs(self._cluster, await self.pods(), tail=tail)
        with self._noting_interruptions():
            async with aclosing(lines):
                async for line in lines:
                    yield line

    async def events(self) -> list[Event]:
        """List the Events about the job, its PodGroup and its pods, oldest first."""
        async with self._cluster.requests(self.name) as client:
            found = await client.list(kinds.EVENT, self.namespace)
        tasks = "|".join(re.escape(task.name) for task in self._stored.spec.tasks)
        is_pod = re.compile(rf"{re.escape(self.name)}-(?:{tasks})-\d+").fullmatch
        group = f"{self.name}-{self.uid}"

        def is_mine(event: Event) -> bool:
            about = event.involved_object
            return about.uid == self.uid or about.name == group or is_pod(about.name) is not None

        mine = [event for event in found if isinstance(event, Event) and is_mine(event)]
        return sorted(mine, key=lambda event: event.last_timestamp or event.metadata.creation_timestamp or "")

    async def why(self) -> Reason:
        """Explain why it waits, and what would help, as `volcanoio why` does."""
        if (await self._read()).status.state.phase in FINISHED_PHASES:
            return Reason(job=f"{self.namespace}/{self.name}")  # it has no PodGroup any more
        return await self._explain()

    async def eta(self, *, history: str | Path | None = None) -> Eta:
        """Estimate when it starts, as `volcanoio eta` does: seconds from now, with an interval.

        `history` is a file of finished jobs, from which run times are learned; by default that of the `volcanoio up`
        which wrote the kubeconfig. Without one the interval is a guess.
        """
        if (job := await self._read()).status.state.phase in _ENDED:
            return Eta(target=job.metadata.key, at=time(), waits=False)
        file = Path(history) if history is not None else self._cluster.history
        return await estimate_start(self._cluster, self.name, self.namespace, file)

    async def timeline(self) -> Timeline:
        """Return what happened to it so far, as `volcanoio timeline` does; pods of one moment are one entry."""
        async with self._cluster.requests(self.name) as client:
            try:
                found = await read_timeline(client, self.name, self.namespace)
            except UnknownJobError as error:
                raise JobNotFound(NotFound(404, "NotFound", str(error))) from None
        self._check_identity(found.uid)
        return msgspec.structs.replace(found, entries=tuple(grouped(found.entries)))

    async def yaml(self) -> str:
        """Return the stored object as YAML, without managedFields."""
        async with self._cluster.requests(self.name) as client:
            manifest = await client.get_raw(kinds.JOB, self.name, self.namespace)
        manifest["metadata"].pop("managedFields", None)
        return str(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True))

    async def cancel(self) -> None:
        """Delete it with its pods; its records in the cluster's history stay."""
        async with self._cluster.requests(self.name) as client:
            await client.delete(kinds.JOB, self.name, self.namespace, DeleteOptions(uid=self.uid))

    async def suspend(self) -> None:
        """Stop its pods and keep the job; `resume` starts them again."""
        await self._command(JobAction.ABORT_JOB)

    async def resume(self) -> None:
        """Start a suspended job again."""
        await self._command(JobAction.RESUME_JOB)

    async def _explain(self, *, with_remedies: bool = True) -> Reason:
        return await explain_job(self._cluster, self.name, self.namespace, with_remedies=with_remedies)

    async def _read(self) -> Job:
        async with self._cluster.requests(self.name) as client:
            found = await client.get(kinds.JOB, self.name, self.namespace)
        assert isinstance(found, Job)
        self._check_identity(found.metadata.uid)
        self._stored = found
        return found

    def _check_identity(self, uid: str) -> None:
        if uid != self.uid:
            message = f"job {self.namespace}/{self.name} was deleted; another one has its name now"
            raise JobNotFound(NotFound(404, "NotFound", message))

    async def _command(self, action: JobAction) -> None:
        """Request an action of the controllers, as vcctl does."""
        job = await self._read()
        async with self._cluster.requests(self.name) as client:
            await client.command(kinds.JOB, job, action, self.namespace)

    async def _lateness(self, seconds: float) -> Timeout:
        """Return the error of a job that did not get there within so many seconds."""
        job, phase = f"{self.namespace}/{self.name}", self._stored.status.state.phase or JobPhase.PENDING
        if not _reached(self._stored, PLACED):
            with suppress(ClientError):  # as of a user without the rights
                if (reason := await self._explain(with_remedies=False)).code:
                    return Unschedulable(job, seconds, reason.code, reason.message)
        return Timeout(f"job {job} is still {phase} after {seconds:g} s; {self._still_running()}")

    async def _failure(self, goal: str = FINISHED) -> ClientError:
        """Return the error of an ended job, with its first failed pod and the end of its log."""
        status = self._stored.status
        if status.state.phase == JobPhase.COMPLETED:
            return ClientError(f"job {self.namespace}/{self.name} has completed, so it will not be {goal}")
        pod, end = next(((pod, end) for pod in await self.pods() if (end := _failed_end(pod))), (None, None))
        log: list[str] = []
        if pod is not None:
            with suppress(ClientError):
                log = [line.text async for line in read_logs(self._cluster, [pod], tail=_LOG_LINES)]
        return JobFailed(
            f"{self.namespace}/{self.name}",
            status.state.phase,
            message=status.state.message,
            pod=pod.metadata.name if pod else "",
            exit_code=end.exit_code if end else None,
            reason=_reason_of(end) if end else "",
            log=tuple(log),
        )

    async def _values(self, count: int) -> tuple[Any, ...]:
        """Return the results of a mapped function, () for other jobs."""
        template = self._stored.spec.tasks[0].template if self._stored.spec.tasks else {}
        containers = template.get("spec", {}).get("containers") or [{}]
        if not any(each.get("name") == "VC_RESULT" for each in containers[0].get("env") or ()):
            return ()
        return results_of(await self.pods(), count)


class _Reading:
    """An awaitable that sends its request when it is awaited, and may be dropped without."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, Status]]) -> None:
        self._read = read

    def __await__(self) -> Generator[Any, None, Status]:
        return self._read().__await__()


class _Notes:
    """Why a job waits, for its progress: asked again after ten seconds or, where that is slow, later.

    A task asks, so that looking at the job is not delayed by the answer.
    """

    def __init__(self, ask: Callable[[], Awaitable[Reason]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None
        self._next = monotonic() + _FIRST_NOTE
        self._text = ""

    def current(self, job: Job) -> str:
        """Return the last known reason in a few words, "" for a job that does not wait."""
        if _reached(job, PLACED):
            return ""
        if self._asking is not None and self._asking.done():
            self._asking.result()
            self._asking = None
        if self._asking is None and monotonic() >= self._next:
            self._asking = asyncio.create_task(self._update())
        return self._text

    async def _update(self) -> None:
        began = monotonic()
        with suppress(ClientError):
            reason = await self._ask()
            place = f", number {reason.position} in {reason.queue}" if reason.position else ""
            self._text = f"{reason.code}{place}" if reason.code else ""
        took = monotonic() - began
        self._next = monotonic() + max(_NOTE_INTERVAL, took * _NOTE_REST)

    async def aclose(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            await stop(self._asking)


def _goal(text: str) -> str:
    if (goal := _GOALS.get(text.lower())) is None:
        raise InvalidJob(f'wait(until="{text}") is no phase{suggestion(text, list(_GOALS.values()))}')
    return goal


def _reached(job: Job, goal: str) -> bool:
    """Return whether a job is in the phase, or was in it before it ended."""
    phase = job.status.state.phase or str(JobPhase.PENDING)
    if goal == FINISHED:
        return phase in FINISHED_PHASES
    if goal == PLACED:
        return phase != JobPhase.PENDING
    return phase == goal or (
        phase in FINISHED_PHASES
        and goal == JobPhase.RUNNING
        and any(each.status == goal for each in job.status.conditions)
    )


def _failed_end(pod: Pod) -> ContainerStateTerminated | None:
    """Return how the container ended that made a pod fail; None for a pod that did not."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [end for each in statuses for end in (each.state.terminated, each.last_state.terminated) if end is not None]
    failed = next((end for end in ends if end.exit_code), None)
    if pod.status.phase == "Failed":
        return failed or ContainerStateTerminated(reason=pod.status.reason)
    return failed


def _reason_of(end: ContainerStateTerminated) -> str:
    """Return why a container ended; with the runtime's message if it could not be started, as without its program."""
    return f"{end.reason}: {end.message}" if end.reason in _NOT_STARTED and end.message else end.reason


def _or_infinite(limit: float | None) -> float:
    return inf if limit is None else limit


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)
