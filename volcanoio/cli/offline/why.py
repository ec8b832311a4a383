"""`volcanoio why`: reads the state of a cluster or of files, and prints why something waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.offline.state_source import command_errors, read_source
from volcanoio.cli.terminal import ExitCode, UsageError, fitted_columns
from volcanoio.compose.gc_tuning import tune_garbage_collector
from volcanoio.compose.why import JobAnswer, QueueAnswer, UnknownTargetError, explain
from volcanoio.engine.scheduling.diagnosis.codes import CODES
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, Shortage
from volcanoio.engine.scheduling.offline.remedies import RemedyKind
from volcanoio.framework.arguments import pluralize


def run_why(
    *,
    target: str,
    namespace: str,
    files: Sequence[Path],
    conf: Path | None,
    **given: Any,
) -> int:
    """Explain and print; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    kubeconfig, remedies, output = given.pop("kubeconfig"), given.pop("remedies"), given.pop("output")
    with command_errors(conf):
        simulator, state = read_source(files, kubeconfig, conf, given)
    try:
        answer = explain(simulator, state, target, namespace, with_remedies=remedies)
    except UnknownTargetError as error:
        raise UsageError(error) from None
    if output == "json":
        print(msgspec.json.encode(answer).decode(), flush=True)
    else:
        print(job_text(answer) if isinstance(answer, JobAnswer) else queue_text(answer), flush=True)
    return ExitCode.OK


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
    lines = [f"{answer.target} waits: {found.stage}", "", *(f"  {name:<9}{text}" for name, text in rows)]
    return "\n".join([*lines, "", *_remedy_lines(answer, found)]).rstrip()


def _shortage_text(short: Shortage) -> str:
    amounts = f"a pod requests {short.requested} and {short.free} is free"
    return f"{short.node} is short of {short.resource} {short.missing}: {amounts}"


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
    if found.pods < found.min_available:
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
    lines = [f"{answer.target} is {answer.state}; {pluralize(len(answer.waiting), 'job')} waiting in it"]
    if rows:
        lines += ["", *(f"  {name:<12}{text}" for name, text in rows)]
    if answer.placed_now:
        lines += ["", f"A scheduling cycle places pods of {', '.join(answer.placed_now)} now."]
    if answer.waiting:
        table = [(each.position or "-", each.target, each.stage, each.code, each.message) for each in answer.waiting]
        lines += ["", fitted_columns(("NO", "WAITING", "STAGE", "CODE", "MESSAGE"), table, gap=2)]
    return "\n".join(lines)


def _listed(amounts: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
