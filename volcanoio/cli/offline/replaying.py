"""`volcanoio replay`: decides the events of a journal again, and prints what differs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.bus.journal import Difference, JournalError
from volcanoio.bus.records import Codec, Decided
from volcanoio.cli.offline.state_source import text_of
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, fitted_columns
from volcanoio.compose.journals.comparison import Comparison, compare_configuration
from volcanoio.compose.journals.replay import ReplayReport, replay_controllers, replay_scheduler
from volcanoio.compose.journals.shrinking import ShrinkError, shrink
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.framework.arguments import pluralize
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, Registry, discover

PROCESSES = {"scheduler": replay_scheduler, "controllers": replay_controllers}
"""What replays the journal of a process, by the name of its directory."""
_LARGE = 64 << 20
"""Bytes of a journal from which the processes are replayed side by side."""


def run_replay(journal: Path, **given: Any) -> int:
    """Replay every process of a journal and print the result; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    parts = {name: journal / name for name in PROCESSES if (journal / name).is_dir()}
    if not parts:
        wanted = " and ".join(PROCESSES)
        raise UsageError(f"{journal}: no journal; give the directory of --journal, which contains {wanted}")
    dirs = given["plugins_dir"], given["controllers_dir"]
    try:
        if given["conf"] is not None:
            return _compare(parts, discover(plugins_dirs=dirs[0]), given)
        if given["shrink"] is not None:
            return _shrink(parts, discover(plugins_dirs=dirs[0], controllers_dirs=dirs[1]), given["shrink"])
        reports = replay_all(parts, dirs, given["until"])
    except (PluginError, MountError) as error:
        raise UsageError(error) from None
    except (JournalError, ConfigurationError) as error:
        raise CommandError(str(error)) from None
    if given["output"] == "json":
        print(msgspec.json.encode({name: _plain(report) for name, report in reports.items()}).decode(), flush=True)
    else:
        for name, report in reports.items():
            print(report_text(name, report, until=given["until"]), flush=True)
    return ExitCode.JOB_FAILED if any(report.first for report in reports.values()) else ExitCode.OK


def replay_all(
    parts: dict[str, Path], dirs: tuple[Sequence[Path], Sequence[Path]], until: int | None
) -> dict[str, ReplayReport]:
    """Replay each process, large journals side by side; `dirs` contain plugins and controllers. Raises JournalError."""
    size = sum(path.stat().st_size for part in parts.values() for path in part.iterdir())
    if len(parts) == 1 or size < _LARGE:
        return {name: _replay(name, path, dirs, until) for name, path in parts.items()}
    with ProcessPoolExecutor(max_workers=len(parts), mp_context=get_context("spawn")) as pool:
        running = {name: pool.submit(_replay, name, path, dirs, until) for name, path in parts.items()}
        return {name: each.result() for name, each in running.items()}


def _replay(name: str, path: Path, dirs: tuple[Sequence[Path], Sequence[Path]], until: int | None) -> ReplayReport:
    """Replay one process; may run in a process of its own."""
    tune_garbage_collector()
    registry = discover(plugins_dirs=dirs[0], controllers_dirs=dirs[1])
    report = PROCESSES[name](path, registry, until=until)
    if report.last is not None:  # as plain values, which can be sent
        effects = Codec().plain(report.last.effects)
        report.last = msgspec.structs.replace(report.last, effects=effects)
    return report


def report_text(name: str, report: ReplayReport, *, until: int | None = None) -> str:
    """Return the result of a replay as text: one line if nothing differs."""
    if (first := report.first) is None:
        counted = pluralize(report.decisions, "decision")
        lines = [f"{name}: every decision is the same ({counted})"]
        if until is not None and report.last is not None:
            last = report.last
            lines.append(f"  the last one up to #{until}: {last.actor} for {last.key}, caused by #{last.cause}")
            lines += [f"    {text}" for text in _effect_texts(last.effects)]
        return "\n".join(lines)
    lines = [f"{name}: the first difference: {first}"]
    lines += [f"  {side}: {text}" for side, text in zip(("recorded", "replayed"), _sides(first), strict=True)]
    share = 100 * (report.decisions - report.different) / report.decisions
    lines.append(
        f"  {report.different} of {pluralize(report.decisions, 'decision')} differ; {share:.1f} % are the same"
    )
    if following := report.differences[1:]:
        lines += ["  what followed:", *(f"    {each}" for each in following)]
    return "\n".join(lines)


def _sides(difference: Difference) -> tuple[str, str]:
    """Return the values that differ, shortened."""
    return _value(difference, difference.recorded), _value(difference, difference.replayed)


def _value(difference: Difference, decided: Decided | None) -> str:
    if decided is None:
        return "nothing"
    value = difference.value(decided)
    return _shortened(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:157]}..."


def _effect_texts(effects: Any) -> list[str]:
    """Return effects of a decision in a line each, shortened."""
    flat = effects.get("decisions", []) if isinstance(effects, dict) else [each for stage in effects for each in stage]
    texts = [msgspec.json.encode(each).decode() for each in flat]
    return [_shortened(text) for text in texts[:10]] or ["nothing to do"]


def _plain(report: ReplayReport) -> dict[str, Any]:
    plain = Codec().plain
    return {
        "decisions": report.decisions,
        "different": report.different,
        "differences": [
            {
                "position": each.position,
                "where": each.where,
                "recorded": each.recorded and plain(msgspec.to_builtins(each.recorded)),
                "replayed": each.replayed and plain(msgspec.to_builtins(each.replayed)),
                "chain": [{"seq": event.seq, "type": type(event).__name__} for event in each.chain],
            }
            for each in report.differences
        ],
    }


def _compare(parts: dict[str, Path], registry: Registry, given: dict[str, Any]) -> int:
    """Compare with another configuration and print; returns the exit code."""
    if "scheduler" not in parts:
        raise UsageError("--conf needs the journal of a scheduler; this one contains that of controllers only")
    conf = given["conf"]
    try:
        found = compare_configuration(parts["scheduler"], registry, text_of(conf) or "", until=given["until"])
    except ConfigurationError as error:
        raise UsageError("\n".join(f"{conf}: {line}" for line in str(error).splitlines())) from None
    if given["output"] == "json":
        print(msgspec.json.encode(found).decode(), flush=True)
    else:
        print(comparison_text(found, str(conf)), flush=True)
    return ExitCode.OK


def comparison_text(found: Comparison, conf: str) -> str:
    """Return what another configuration decides differently, as text."""
    share = 100 * found.same / found.cycles if found.cycles else 100.0
    lines = [f"{conf}: {found.same} of {pluralize(found.cycles, 'cycle')} decide the same ({share:.1f} %)"]
    if found.unseen:
        lines.append(
            f"  the journal has no {', '.join(found.unseen)}, which it reads: it decides as if there were none"
        )
    if (first := found.first) is not None:
        time = f"{datetime.fromtimestamp(first.at, UTC):%Y-%m-%d %H:%M:%S}"
        lines.append(f"  first difference: cycle {first.cycle}, event {first.seq}, {time}")
        lines += [f"    only recorded: {text}" for text in first.recorded]
        lines += [f"    only with {conf}: {text}" for text in first.other]
        lines += [f"    and {first.more} more"] if first.more else []
    header = ("QUEUE", "BOUND", "WITH IT", "EVICTED", "WITH IT")
    rows = [
        (name or "-", each.bound, each.other_bound, each.evicted, each.other_evicted)
        for name, each in found.queues.items()
    ]
    lines += ["", fitted_columns(header, rows, gap=2)] if rows else []
    lines += ["", "Each cycle was decided on the state as it was recorded, and each pod is counted once."]
    return "\n".join(lines)


def _shrink(parts: dict[str, Path], registry: Registry, into: Path) -> int:
    """Reduce the first process whose replay fails, and print; returns the exit code."""
    if into.exists() and any(into.iterdir()):
        raise UsageError(f"--shrink: {into} is not empty; give a directory that does not exist yet")
    for name, path in parts.items():
        try:
            found = shrink(path, name, registry, into)
        except ShrinkError as error:
            print(f"{name}: {error}", flush=True)
            continue
        before, after = found.objects
        print(
            f"{name}: {found.failure}\n"
            f"  reduced from {pluralize(before, 'object')} to {after}, from {pluralize(found.events[0], 'event')} to "
            f"{found.events[1]}, by {pluralize(found.trials, 'replay')}\n"
            f"  written to {into}; see it with: volcanoio replay {into}",
            flush=True,
        )
        return ExitCode.OK
    raise CommandError("no process of the journal fails: nothing was written")
