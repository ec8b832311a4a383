"""`volcanoio simulate`: runs scheduling cycles on a state from files and prints the result.

The result is JSON or a table: where each pod is placed, which pods are evicted, and why the others wait. Errors are
printed as one line.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.componentflags import SchedulerFlags
from volcanoio.cli.terminal import ExitCode, UsageError, fitted_columns
from volcanoio.compose.gc_tuning import tune_garbage_collector
from volcanoio.compose.simulate import SimulateOptions, simulate
from volcanoio.compose.state_files import StateError
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.config.yaml_nodes import Problem
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model.documents import read_text
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError

_WIDE = 40


def table(offline: Offline) -> str:
    """Return the whole result as text."""
    snapshot = offline.snapshot
    assert snapshot is not None
    binds = Counter(
        (decision.group, bind.node)
        for decision in offline.decisions
        if isinstance(decision, BindBatch)
        for bind in decision.binds
    )
    evictions = [decision for decision in offline.decisions if isinstance(decision, Evict)]
    waiting = f"{len(snapshot.pipelined)} waiting for pods that are ending"
    counts = f"{sum(binds.values())} bound, {len(evictions)} evicted, {waiting}"
    parts = [f"{pluralize(offline.cycles, 'cycle')}: {counts}"]
    reasons = [(key, snapshot.phases.get(key, ""), text) for key, text in snapshot.reasons.items()]
    tables: dict[tuple[str, ...], Sequence[Sequence[object]]] = {
        ("PODGROUP", "NODE", "PODS"): [(*place, count) for place, count in sorted(binds.items())],
        ("EVICTED", "NODE", "ACTION"): [(f"{pod.namespace}/{pod.name}", pod.node, pod.reason) for pod in evictions],
        ("RESERVED FOR", "NODE"): list(snapshot.pipelined.items()),
        ("WAITING", "PHASE", "WHY"): reasons,
    }
    parts += [fitted_columns(header, rows, gap=2) for header, rows in tables.items() if rows]
    return "\n\n".join(parts)


def run_simulate(*, files: Sequence[Path], conf: Path | None, output: str, **given: Any) -> int:
    """Simulate and print; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    with command_errors(conf):
        options, said = options_of(given, files=files, configuration=text_of(conf), cycles=given["cycles"])
        simulation = simulate(options)
    print_notes(conf, simulation.warnings, (*said, *simulation.notes))
    if output == "json":
        print(msgspec.json.encode(simulation.offline.outcome()).decode(), flush=True)
    else:
        print(table(simulation.offline), flush=True)
    return ExitCode.OK


def options_of(
    given: dict[str, Any], *, files: Sequence[Path], configuration: str | None, cycles: int = 1
) -> tuple[SimulateOptions, tuple[str, ...]]:
    """Return the options from the command's flags, and notes about flags without effect."""
    flags = SchedulerFlags.take(given)
    options = SimulateOptions(
        files=[_source(path) for path in files],
        configuration=configuration,
        cycles=cycles,
        state=StateOptions(
            scheduler_names=frozenset(given["scheduler_name"]),
            default_queue=flags.default_queue,
            feature_gates=flags.feature_gates,
            scope=flags.scope,
        ),
        period=flags.period,
        now=_moment(given["now"]),
        ignore_unavailable=given["ignore_unavailable_plugins"],
        plugins_dirs=given["plugins_dir"],
    )
    return options, flags.notes


def print_notes(conf: Path | None, warnings: Iterable[Problem], said: Iterable[str]) -> None:
    """Print the warnings about a configuration, and notes, to stderr."""
    for warning in warnings:
        print(f"warning: {conf}: {warning}" if conf else f"warning: {warning}", file=sys.stderr)
    for note in said:
        print(f"note: {note}", file=sys.stderr)


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"--now: {text} is not a time; write one as 2026-01-01T00:00:00Z")
    return moment.timestamp()


def _source(path: Path) -> Path | tuple[str, bytes]:
    return path if str(path) != "-" else ("stdin", sys.stdin.buffer.read())


def text_of(path: Path | None) -> str | None:
    """Return the text of a configuration file; raises UsageError."""
    if path is None:
        return None
    try:
        return read_text(path)
    except OSError as error:
        raise UsageError(f"--conf {path}: {error.strerror}; give the path of a scheduler's configuration") from None
    except UnicodeDecodeError:
        raise UsageError(f"--conf {path}: not UTF-8 text; give a YAML file") from None


@contextmanager
def command_errors(conf: Path | None) -> Iterator[None]:
    """Convert errors of state, configuration and plugins to CommandErrors."""
    try:
        yield
    except ConfigurationError as error:
        lines = str(error).splitlines()
        text = "\n".join(f"{conf}: {line}" for line in lines) if conf else str(error)
        raise UsageError(text) from None
    except (StateError, PluginError, MountError) as error:
        raise UsageError(error) from None
