"""`volcanoio watch` and `wait`: a job shown until it ends, and jobs that are to reach a phase.

Both end with the exit codes of `terminal.ExitCode`, and never act on a job: Ctrl-C ends only the command.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

import anyio

from volcanoio.cli.connection import Cluster
from volcanoio.cli.look import tables
from volcanoio.cli.look.following import Following, Selected, following
from volcanoio.cli.look.listing import job_phase
from volcanoio.cli.look.logs import pods_of
from volcanoio.cli.look.tables import Objects
from volcanoio.cli.output import is_terminal, phase_text
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.framework.events import Observed
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobPhase, TaskState
from volcanoio.model.core import Pod
from volcanoio.model.printing.ages import since

_REDRAW = 1.0
"""Seconds between two drawings on a terminal without a change, as the age advances."""
_STEP = 0.1
"""Least seconds between two drawings or lines."""


class Goal(NamedTuple):
    """What a job is to reach: `word` is `phase`, `condition` or `delete`; `phase` is "" for `delete`."""

    word: str
    phase: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the value of --for; raises UsageError."""
        if text == "delete":
            return cls("delete")
        word, equals, name = text.partition("=")
        if not equals:
            word, name = "condition", text
        if word not in ("phase", "condition"):
            raise UsageError(f'--for: "{word}" is not known; write PHASE, phase=PHASE, condition=PHASE or delete')
        return cls(word, job_phase("--for", name))

    def __str__(self) -> str:
        """Return what is waited for, in messages."""
        return self.phase or "deleted"

    def is_met(self, job: Job | None) -> bool:
        """Return whether a job, None if it was deleted, is as it should be."""
        if job is None or self.word == "delete":
            return job is None and self.word == "delete"
        reached = {tables.phase_of(job)}
        if self.word == "condition":
            reached |= {each.status for each in job.status.conditions}
        return self.phase in reached


def _ended(job: Job | None, *, was_aborted: bool) -> bool:
    """Return whether a job changes no more; one that was aborted before the command began may be resumed."""
    if job is None:
        return True
    phase = tables.phase_of(job)
    return phase in tables.ENDED and not (was_aborted and phase == JobPhase.ABORTED)


def _outcome(name: str, job: Job | None) -> str:
    """Return how a job ended, as a clause."""
    if job is None:
        return f"job {name} was deleted"
    reason = ": ".join(filter(None, (job.status.state.reason, job.status.state.message)))
    return f"job {name} is {tables.phase_of(job)}{f' ({reason})' if reason else ''}"


async def wait_for_jobs(
    cluster: Cluster,
    wanted: Sequence[str],
    labels: str,
    goal: str,
    timeout: float | None,  # noqa: ASYNC109 - the user's
) -> int:
    """Wait for the goal of each job, and print which reached it; returns the exit code."""
    aim = Goal.parse(goal)
    started = await _jobs(cluster, wanted, labels, may_be_gone=aim.word == "delete")
    if not started:
        return ExitCode.OK
    waits = _Waits(aim, started)
    first = next(iter(started.values())).metadata
    one = Selected.one(kinds.JOB, first.name, first.namespace)
    selected = one if len(started) == 1 else Selected(kinds.JOB, cluster.namespace, labels=labels)
    with anyio.move_on_after(timeout):
        async with following(cluster, selected) as caches:
            while waits.update({key: job for key, job in caches.objects[kinds.JOB].items() if isinstance(job, Job)}):
                await caches.changes.receive()
    if waits.pending:
        print(f"not {aim} in time: {', '.join(sorted(waits.pending.values()))}", file=sys.stderr)
        return ExitCode.TIMEOUT
    return ExitCode.JOB_FAILED if waits.has_failed else ExitCode.OK


async def _jobs(cluster: Cluster, wanted: Sequence[str], labels: str, *, may_be_gone: bool) -> dict[str, Job]:
    """Return the jobs of these names, or with these labels. Raises UsageError if one does not exist."""
    if bool(wanted) == bool(labels):
        raise UsageError("give the names of jobs, or their labels with -l; not both")
    if labels:
        found = list((await Selected(kinds.JOB, cluster.namespace, labels).listed(cluster)).values())
        if not found and not may_be_gone:
            raise UsageError(f'no job has the labels "{labels}" {cluster.place}')
    else:
        found = []
        for name in wanted:
            try:
                found.append(await cluster.get(kinds.JOB, name))
            except UsageError:
                if not may_be_gone:
                    raise
    return {job.metadata.key: job for job in found if isinstance(job, Job)}


class _Waits:
    """The jobs that have not reached the goal yet, by key and with their names."""

    def __init__(self, goal: Goal, started: dict[str, Job]) -> None:
        self.pending = {key: job.metadata.name for key, job in started.items()}
        self.has_failed = False
        self._goal = goal
        self._uids = {key: job.metadata.uid for key, job in started.items()}
        self._aborted = {key for key, job in started.items() if tables.phase_of(job) == JobPhase.ABORTED}

    def update(self, jobs: dict[str, Job]) -> bool:
        """Print and remove the jobs that reached the goal or ended otherwise; returns whether any is left."""
        for key, name in list(self.pending.items()):
            job = jobs.get(key)
            if job is not None and job.metadata.uid != self._uids[key]:
                job = None
            if job is None or tables.phase_of(job) != JobPhase.ABORTED:
                self._aborted.discard(key)
            if self._goal.is_met(job):
                print(f"job.batch.volcano.sh/{name} condition met", flush=True)
            elif _ended(job, was_aborted=key in self._aborted) and self._goal.word != "delete":
                self.has_failed = True
                print(f"{_outcome(name, job)}, not {self._goal}", file=sys.stderr)
            else:
                continue
            del self.pending[key]
        return bool(self.pending)


async def watch_job(cluster: Cluster, name: str, timeout: float | None) -> int:  # noqa: ASYNC109 - the user's
    """Show a job until it ends; returns 0 if it completed, 1 if it did not, 4 after `timeout` seconds."""
    job = await cluster.get(kinds.JOB, name)
    assert isinstance(job, Job)
    meta = job.metadata
    group = Selected.one(kinds.POD_GROUP, f"{name}-{meta.uid}", meta.namespace)
    again = f"see it again with: volcanoio watch {name} -n {meta.namespace}"
    last: Job | None = job
    try:
        with anyio.move_on_after(timeout) as scope:
            async with following(cluster, Selected.one(kinds.JOB, name, meta.namespace), group, pods_of(job)) as caches:
                last = await _show(cluster, caches, job)
    except anyio.get_cancelled_exc_class():
        raise CommandError(f"job {name} runs on; {again}", ExitCode.INTERRUPTED) from None
    if scope.cancelled_caught:
        raise CommandError(f"job {name} has not ended in time and runs on; {again}", ExitCode.TIMEOUT)
    if last is not None and tables.phase_of(last) == JobPhase.COMPLETED:
        print(_outcome(name, last))
        return ExitCode.OK
    print(f"{_outcome(name, last)}; see: volcanoio logs {name}, volcanoio events {name}", file=sys.stderr)
    return ExitCode.JOB_FAILED


async def _show(cluster: Cluster, caches: Following, job: Job) -> Job | None:
    """Show each change of a job until it has ended; returns its last state, None if it was deleted."""
    was_aborted = tables.phase_of(job) == JobPhase.ABORTED
    remark = ""
    async with _screen() as screen:
        while True:
            found = caches.objects[kinds.JOB].get(job.metadata.key)
            current = found if isinstance(found, Job) and found.metadata.uid == job.metadata.uid else None
            was_aborted = was_aborted and current is not None and tables.phase_of(current) == JobPhase.ABORTED
            if current is not None:
                screen.show(cluster, current, caches.objects, remark)
            if _ended(current, was_aborted=was_aborted):
                return current
            with anyio.move_on_after(_REDRAW):
                for event in await caches.changes.receive():
                    remark = _remark(event) or remark if isinstance(event, Observed) else remark
                await anyio.sleep(_STEP)


def _remark(event: Observed) -> str:
    """Return what happened to a pod, "" for other changes."""
    pod, before = event.object, event.previous
    if not isinstance(pod, Pod) or not isinstance(before, Pod):
        return ""
    if pod.spec.node_name and not before.spec.node_name:
        return f"{pod.metadata.name} was placed on {pod.spec.node_name}"
    if pod.status.phase != before.status.phase:
        return f"{pod.metadata.name} is {pod.status.phase}"
    return ""


def job_lines(job: Job, objects: Objects, remark: str, age: str) -> list[str]:
    """Return the display of a job: itself, its tasks, why it waits, and what happened last."""
    bar = tables.gang_bar(tables.placed_pods(job), job.spec.min_available)
    lines = [f"{job.metadata.name}  {phase_text(tables.phase_of(job))}  gang {bar}  {age}"]
    width = max((len(task.name) for task in job.spec.tasks), default=0)
    for task in job.spec.tasks:
        counts = job.status.task_status_count.get(task.name, TaskState()).phase
        placed = counts.get("Running", 0) + counts.get("Succeeded", 0)
        words = ", ".join(f"{number} {phase.lower()}" for phase, number in sorted(counts.items()) if number)
        lines.append(f"  {task.name:<{width}}  {tables.gang_bar(placed, task.replicas):<16}  {words}".rstrip())
    reason = ": ".join(filter(None, tables.reason_of(objects, job)))
    return [*lines, *(f"  {word}: {text}" for word, text in (("waits", reason), ("last", remark)) if text)]


class _Lines:
    """Prints a line for each change of phase, pods or reason; for pipes and logs."""

    def __init__(self) -> None:
        self._printed: tuple[object, ...] = ()

    def show(self, cluster: Cluster, job: Job, objects: Objects, _remark: str) -> None:
        """Print the state if it has changed."""
        status, phase = job.status, tables.phase_of(job)
        code, message = tables.reason_of(objects, job)
        counts = (status.running, status.pending, status.succeeded, status.failed)
        state = (phase, counts, code)
        if state != self._printed:
            self._printed = state
            pods = "/".join(map(str, counts))
            gang = f"{tables.placed_pods(job)}/{job.spec.min_available}"
            reason = f" ({code}: {message})" if code else ""
            print(
                f"{cluster.now():%H:%M:%S} {job.metadata.name} {phase} gang {gang} r/p/s/f {pods}{reason}", flush=True
            )


class _Drawing:
    """Draws a job in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(console=Console(), auto_refresh=False)

    def show(self, cluster: Cluster, job: Job, objects: Objects, remark: str) -> None:
        """Draw the state."""
        from rich.text import Text

        age = since(job.metadata.creation_timestamp, cluster.now())
        text = Text.from_ansi("\n".join(job_lines(job, objects, remark, age)))
        text.no_wrap, text.overflow = True, "ellipsis"
        self.live.update(text, refresh=True)


@asynccontextmanager
async def _screen() -> AsyncIterator[_Lines | _Drawing]:
    """Provide a drawing on a terminal, else lines."""
    if not is_terminal():
        yield _Lines()
        return
    drawing = _Drawing()
    with drawing.live:
        yield drawing
