"""`volcanoio why`: asks the running scheduler, reads a state or conditions, and prints why something waits."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec

from volcanoio.bus.journal import JournalError
from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.offline.state_source import asking, command_errors, read_source, unavailable
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, fitted_columns
from volcanoio.compose.journals.replay import replayed_evictions
from volcanoio.compose.live.conditions import evictions_by_events, job_without_group, waiting_by_conditions
from volcanoio.compose.live.reading import jobs_of
from volcanoio.compose.live.running_scheduler import RunningScheduler, SchedulerUnavailableError
from volcanoio.compose.why import CONDITIONS, SCHEDULER, JobAnswer, explain, with_remedies_in
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.diagnosis.answers import (
    EvictionAnswer,
    JobMemory,
    LiveAnswer,
    QueueAnswer,
    UnknownTargetError,
    parse_target,
)
from volcanoio.engine.scheduling.diagnosis.codes import CODES
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, Shortage
from volcanoio.engine.scheduling.offline.remedies import RemedyKind
from volcanoio.framework.arguments import pluralize
from volcanoio.kube.client import Client
from volcanoio.model.times import rfc3339
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, discover

T = TypeVar("T")
MAX_SHOWN = 10
"""Most evictions that are printed as text."""


class _Question(NamedTuple):
    """What is asked, and whom."""

    target: str
    namespace: str
    kubeconfig: Path | None
    url: str
    lease: str


def run_why(*, target: str, namespace: str, files: Sequence[Path], conf: Path | None, **given: Any) -> int:
    """Explain and print; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    kubeconfig, remedies, output = given.pop("kubeconfig"), given.pop("remedies"), given.pop("output")
    url, is_offline, evicted = given.pop("scheduler_url"), given.pop("offline"), given.pop("evicted")
    journal: Path | None = given.pop("journal")
    if journal is not None and not evicted:
        raise UsageError("--journal needs --evicted: why a job waited is in its timeline: volcanoio timeline --journal")
    if url and (files or conf is not None or is_offline):
        raise UsageError("--scheduler-url: -f, --conf and --offline decide on this machine; leave one of them out")
    question = _Question(_checked(target), namespace, kubeconfig, url, given["scheduler_name"][0])
    try:
        if evicted:
            if files or is_offline:
                raise UsageError("--evicted: evictions are in no state; ask a cluster, without -f and --offline")
            found = _evictions(question) if journal is None else _evictions_of_journal(question, journal, given)
            known = "Events are kept for an hour or so." if journal is None else f"{journal} contains none."
            return _show(output, found, lambda: evictions_text(found, target, namespace, known))
        answer = None
        if not files and conf is None and not is_offline:
            answer = _ask_running(question, remedies, given)
        if answer is None:
            answer = _decide_here(question, files, conf, remedies, given)
    except UnknownTargetError as error:
        waiting = None
        if not evicted and not files and not url:
            waiting = _of_cluster(question, lambda client: job_without_group(client, target, namespace))
        if waiting is None:
            raise UsageError(error) from None
        answer = JobAnswer.of(waiting, CONDITIONS)
    return _show(output, answer, lambda: job_text(answer) if isinstance(answer, JobAnswer) else queue_text(answer))


def _checked(target: str) -> str:
    """Return a target whose kind is one that waits. Raises UsageError."""
    try:
        parse_target(target)
    except UnknownTargetError as error:
        raise UsageError(error) from None
    return target


def _show(output: str, answer: object, text: Callable[[], str]) -> int:
    print(msgspec.json.encode(answer).decode() if output == "json" else text(), flush=True)
    return ExitCode.OK


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _ask_running(question: _Question, remedies: bool, given: dict[str, Any]) -> JobAnswer | QueueAnswer | None:
    """Ask the running scheduler; None if that cannot be asked, with a note why. Raises UnknownTargetError."""

    async def ask(scheduler: RunningScheduler) -> tuple[LiveAnswer, bytes | None]:
        answer = await scheduler.why(question.target, question.namespace)
        waits = answer.waiting is not None and answer.waiting.diagnosis is not None
        return answer, await scheduler.snapshot() if waits and remedies else None

    if (found := _asked(question, ask, "one cycle is run here instead, on what you may list")) is None:
        return None
    answer, snapshot = found
    _note(f"answered by the running scheduler, after cycle {answer.cycle}")
    if answer.queue is not None:
        return msgspec.structs.replace(answer.queue, source=SCHEDULER)
    assert answer.waiting is not None
    about = JobAnswer.of(answer.waiting, SCHEDULER)
    if snapshot is None or about.diagnosis is None:
        return about
    with command_errors(None):
        simulator, state = read_source([("the running scheduler", snapshot)], None, None, given)
        if not question.url:
            state.jobs = _of_cluster(question, lambda client: jobs_of(client, question.namespace))
    return with_remedies_in(about, simulator, state)


def _asked(question: _Question, ask: Callable[[RunningScheduler], Awaitable[T]], instead: str) -> T | None:
    """Return the answer of the running scheduler; None if it cannot be asked, with a note.

    Raises CommandError if its URL was given.
    """

    async def call() -> T:
        async with asking(question.kubeconfig, question.url, question.lease) as scheduler:
            return await ask(scheduler)

    try:
        return anyio.run(call)
    except SchedulerUnavailableError as error:
        if question.url:
            raise unavailable(error) from None
        _note(f"the running scheduler cannot be asked: {error}; {instead}")
        return None


def _decide_here(
    question: _Question, files: Sequence[Path], conf: Path | None, remedies: bool, given: dict[str, Any]
) -> JobAnswer | QueueAnswer:
    """Run a cycle on a state; on a cluster whose objects may not be listed, read conditions instead."""
    try:
        with command_errors(conf):
            simulator, state = read_source(files, question.kubeconfig, conf, given)
    except CommandError as error:
        if files or error.code != ExitCode.REJECTED:
            raise
        _note(f"{error}; this is read from conditions alone: no place in the queue, no nearest node, no remedies")
        waiting = _of_cluster(
            question, lambda client: waiting_by_conditions(client, question.target, question.namespace)
        )
        return JobAnswer.of(waiting, CONDITIONS)
    return explain(simulator, state, question.target, question.namespace, with_remedies=remedies)


def _of_cluster(question: _Question, read: Callable[[Client], Awaitable[T]]) -> T:
    async def call() -> T:
        async with connected(question.kubeconfig) as client:
            with reporting_api_errors():
                return await read(client)

    return anyio.run(call)


def _evictions(question: _Question) -> tuple[EvictionAnswer, ...]:
    """Return the evictions that the running scheduler remembers, else those of which there are Events."""
    target, namespace = question.target, question.namespace
    answer = _asked(question, lambda scheduler: scheduler.evictions(target, namespace), "only Events are read")
    if answer is None or not answer.evictions:
        if question.url:
            return ()
        if answer is not None:
            _note("the running scheduler remembers none, as it does not after a restart; only Events are read")
        return _of_cluster(question, lambda client: evictions_by_events(client, target, namespace))
    return answer.evictions


def _evictions_of_journal(question: _Question, journal: Path, given: dict[str, Any]) -> tuple[EvictionAnswer, ...]:
    """Return the evictions that a journal contains, as its scheduler remembered them at the end."""
    directory = journal / "scheduler"
    if not directory.is_dir():
        raise UsageError(f"{journal}: no journal of a scheduler; give the directory of --journal")
    try:
        registry = discover(plugins_dirs=given["plugins_dir"])
        return replayed_evictions(directory, registry, question.target, question.namespace)
    except (PluginError, MountError) as error:
        raise UsageError(error) from None
    except (JournalError, ConfigurationError) as error:
        raise CommandError(str(error)) from None


_ACTIONS = {
    "preempt": "pods of lower priority make room for a job of their queue",
    "gangpreempt": "jobs of lower priority make room for a job of their queue",
    "reclaim": "a queue takes back what it deserves from one that has more",
    "gangreclaim": "a queue takes back what it deserves from jobs of one that has more",
    "shuffle": "plugins want it to run elsewhere",
}


def evictions_text(found: Sequence[EvictionAnswer], target: str, namespace: str, known: str) -> str:
    """Return evictions as lines for people; `known` follows where there are none."""
    if not found:
        return f"No eviction of {target} in namespace {namespace} is known. {known}"
    blocks = [_eviction_text(each) for each in found[:MAX_SHOWN]]
    if len(found) > MAX_SHOWN:
        blocks.append(f"and {len(found) - MAX_SHOWN} more; -o json has them all")
    return "\n\n".join(blocks)


def _eviction_text(each: EvictionAnswer) -> str:
    rows = [("action", f"{each.action}: {_ACTIONS.get(each.action, 'an action of a plugin')}")]
    if each.node:
        rows.append(("victim", f"job {each.job}, queue {each.queue}, priority {each.priority}"))
    if (by := each.by) is not None:
        nodes = f"; its pods are nominated for {', '.join(each.nodes)}" if each.nodes else ""
        rows.append(("for", f"{by.job}, queue {by.queue}, priority {by.priority}{nodes}"))
        if each.cycle:
            state = f"is {by.phase}: {by.ready} of {by.min_available} needed pods have a node, {by.pending} are pending"
            rows.append(("now", f"{by.job} {state if by.exists else 'is gone'}"))
    if each.together > 1:
        rows.append(("with", f"{pluralize(each.together - 1, 'other pod')} in the same decision"))
    if each.refusal:
        rows.append(("refused", each.refusal))
    where = f" from {each.node}" if each.node else ""
    cycle = f", in cycle {each.cycle}" if each.cycle else ""
    title = f"{each.pod} was {'to be ' if each.refusal else ''}evicted{where} at {rfc3339(each.at)}{cycle}"
    return "\n".join([title, *(f"  {name:<9}{text}" for name, text in rows)])


def job_text(answer: JobAnswer) -> str:
    """Return an answer about a job as lines for people."""
    if (found := answer.diagnosis) is None:
        return _not_waiting(answer)
    meaning = CODES[found.code].meaning if found.code in CODES else "a plugin's reason"
    rows = [("code", f"{found.code}: {meaning}"), ("message", found.message)]
    if found.min_available or found.pending:
        rows.append(("pods", _pods(found)))
    if found.position:
        after = f", after {', '.join(found.ahead)}" if found.ahead else ""
        line = "for admission to" if found.stage == "enqueue" else "in"
        rows.append(("queue", f"number {found.position} {line} queue {found.queue}{after}"))
    rows += [("nodes" if not at else "", f"{each.nodes}  {each.reason}") for at, each in enumerate(found.nodes)]
    rows += [("nearest" if not at else "", _shortage_text(each)) for at, each in enumerate(found.nearest)]
    rows += _memory_rows(answer.memory)
    lines = [f"{answer.target} waits: {found.stage}", "", *(f"  {name:<9}{text}" for name, text in rows)]
    return "\n".join([*lines, "", *_remedy_lines(answer, found)]).rstrip()


def _shortage_text(short: Shortage) -> str:
    amounts = f"a pod requests {short.requested} and {short.free} is free"
    return f"{short.node} is short of {short.resource} {short.missing}: {amounts}"


def _memory_rows(memory: JobMemory | None) -> list[tuple[str, str]]:
    """Return what only the running scheduler remembers."""
    if memory is None:
        return []
    rows = [
        ("refused", f"{each.pod}: {pluralize(each.refusals, 'bind')} in a row, next try {rfc3339(each.retry_at)}")
        for each in memory.refused
    ]
    rows += [
        (
            "nominated",
            f"{each.pod} for {each.node}; {pluralize(each.victims, 'evicted pod')} of its decision not gone yet",
        )
        for each in memory.nominated
    ]
    if memory.binding:
        rows.append(("binding", f"{pluralize(memory.binding, 'pod')} being bound"))
    if memory.reserved:
        rows.append(
            ("reserved", f"{memory.reserved} places, before all other jobs, until {rfc3339(memory.first_until)}")
        )
    if memory.waits_since:
        rows.append(("since", rfc3339(memory.waits_since)))
    return rows


def _not_waiting(answer: JobAnswer) -> str:
    now = []
    if answer.placed_now:
        now.append(f"places {pluralize(answer.placed_now, 'pod')} of it now")
    if answer.admitted_now:
        now.append("admits it now; its pods do not exist yet")
    if now:
        return (
            f"{answer.target} need not wait: a scheduling cycle {' and '.join(now)}.\n"
            "If that does not happen, see whether a scheduler with its schedulerName runs."
        )
    text = f"{answer.target} does not wait{f': it is {answer.phase}' if answer.phase else ''}."
    if answer.memory is not None and answer.memory.binding:
        text += f" {pluralize(answer.memory.binding, 'pod')} of it are being bound."
    if answer.evicted_now:
        text += f" A scheduling cycle evicts {pluralize(answer.evicted_now, 'pod')} of it now."
    return text


def _pods(found: Diagnosis) -> str:
    parts = [f"{found.min_available} needed together" if found.min_available else "", f"{found.ready} placed"]
    parts.append(f"{found.pending} pending" + (f", {found.found} of them had a node" if found.found else ""))
    return ", ".join(part for part in parts if part)


def _remedy_lines(answer: JobAnswer, found: Diagnosis) -> list[str]:
    if not answer.remedies:
        return []
    first = answer.remedies[0]
    if first.kind is RemedyKind.WAIT:
        return [f"{first.text[0].upper()}{first.text[1:]}."]
    until = "It is placed"
    if answer.only_admitted:
        until = "It is admitted (its pods do not exist yet)"
    elif found.ready >= found.min_available:
        until = "One more of its pods is placed"
    lines = [f"{until} after any one of these; each was tried on a copy of the state:"]
    lines += [f"  - {each.text}" for each in answer.remedies]
    if not answer.is_complete:
        lines.append("  Not everything was tried, as the state is large; more may help.")
    return lines


def queue_text(answer: QueueAnswer) -> str:
    """Return an answer about a queue as lines for people."""
    amounts = {"allocated": answer.allocated, "deserved": answer.deserved, "capability": answer.capability}
    rows = [(name, _listed(each)) for name, each in amounts.items() if each]
    lines = [f"{answer.target} is {answer.state}; {pluralize(answer.waiting_count, 'job')} waiting in it"]
    if rows:
        lines += ["", *(f"  {name:<12}{text}" for name, text in rows)]
    if answer.placed_now:
        lines += ["", f"A scheduling cycle places pods of {', '.join(answer.placed_now)} now."]
    if answer.waiting:
        table = [(each.position or "-", each.target, each.stage, each.code, each.message) for each in answer.waiting]
        lines += ["", fitted_columns(("NO", "WAITING", "STAGE", "CODE", "MESSAGE"), table, gap=2)]
    if (more := answer.waiting_count - len(answer.waiting)) > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines)


def _listed(amounts: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
