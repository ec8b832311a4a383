"""`volcanoio eta`: reads the state of a cluster or of files, and the history, and prints when a job starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.offline.history import find_history, span
from volcanoio.cli.offline.state_source import command_errors, read_source
from volcanoio.cli.terminal import ExitCode, UsageError
from volcanoio.compose.eta import HISTORY_SECONDS, MOST_JOBS, Eta, estimate
from volcanoio.engine.accounting.finished_jobs import FinishedJob
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.framework.arguments import pluralize
from volcanoio.model.times import rfc3339
from volcanoio.runtime.accounting.history_store import HistoryError, Selection, read_history
from volcanoio.runtime.garbage_collection import tune_garbage_collector


def run_eta(*, target: str, namespace: str, files: Sequence[Path], conf: Path | None, **given: Any) -> int:
    """Estimate and print; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    kubeconfig, history, output = given.pop("kubeconfig"), given.pop("history"), given.pop("output")
    with command_errors(conf):
        simulator, state = read_source(files, kubeconfig, conf, given)
    jobs = _history(history, None if files else kubeconfig, simulator.now, is_cluster=not files)
    try:
        answer = estimate(simulator, state, jobs, target, namespace)
    except UnknownTargetError as error:
        raise UsageError(error) from None
    print(msgspec.json.encode(answer).decode() if output == "json" else eta_text(answer), flush=True)
    return ExitCode.OK


def _history(file: Path | None, kubeconfig: Path | None, now: float, *, is_cluster: bool) -> list[FinishedJob]:
    """Return recent jobs of the history, none without one; raises UsageError."""
    file = file or (find_history(kubeconfig) if is_cluster else None)
    if file is None:
        print("note: no history of finished jobs here, so run times are guessed; see --history", file=sys.stderr)
        return []
    try:
        if str(file) == "-" or _is_json(file):
            return msgspec.json.decode(_bytes(file), type=list[FinishedJob])
        return read_history(file, Selection(since=now - HISTORY_SECONDS, most=MOST_JOBS), with_places=True)
    except (HistoryError, msgspec.DecodeError) as error:
        raise UsageError(f"--history: {error}") from None


def _is_json(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(1) == b"["
    except OSError:
        return False  # the reader of databases names the file


def _bytes(file: Path) -> bytes:
    """Return the content of a file, that of stdin for -."""
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def eta_text(answer: Eta) -> str:
    """Return an answer as lines for people."""
    if answer.obstacle:
        namespace, _, name = answer.target.partition("/")
        return f"{answer.target} cannot start: {answer.obstacle}; see volcanoio why podgroup/{name} -n {namespace}"
    if not answer.waits:
        return f"{answer.target} does not wait for others: it runs, has ended, or a scheduling cycle places it now."
    first = f"{answer.target} waits, number {answer.position} of queue {answer.queue}"
    rows = [
        *_start_rows(answer),
        ("its pods", f"run for {span(answer.run_time)} (median), from {_source(answer)}"),
        ("basis", f"{answer.simulations} simulations of the queue; {_calibration(answer)}"),
    ]
    return "\n".join([first, "", *(f"  {name:<9}{text}" for name, text in rows)])


def _start_rows(answer: Eta) -> list[tuple[str, str]]:
    """Return when the job starts, as far as the simulations, which end after a while, show it."""
    p10, p50, p90 = answer.p10, answer.p50, answer.p90
    if p10 is None:
        return [("starts", "later than was simulated")]
    earliest, first = span(p10), rfc3339(answer.at + p10)
    if p50 is None:
        return [("starts", f"in 9 of 10 cases {earliest} from now or later"), ("that is", f"{first} or later")]
    middle, latest = span(p50), "later than was simulated" if p90 is None else f"{span(p90)} from now"
    last = "an unknown time" if p90 is None else rfc3339(answer.at + p90)
    return [
        ("starts", f"in {middle}; in 8 of 10 cases between {earliest} and {latest}"),
        ("that is", f"{rfc3339(answer.at + p50)}, between {first} and {last}"),
    ]


def _source(answer: Eta) -> str:
    jobs = f" ({pluralize(answer.run_time_jobs, 'job')})" if answer.run_time_jobs else ""
    return f"{answer.run_time_source}{jobs}"


def _calibration(answer: Eta) -> str:
    if not answer.past_answers:
        return "not calibrated, as the history has too few jobs that waited: the interval is a guess"
    return f"calibrated by {answer.past_answers} past waits"
