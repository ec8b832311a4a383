"""Runs `volcanoio simulate`: its flags as options, its errors as one line, its outcome as JSON or a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.errors import CommandError, ExitCode
from volcanoio.compose.collector import collect_rarely
from volcanoio.compose.simulate import SimulateOptions, simulate
from volcanoio.compose.statefiles import StateError
from volcanoio.engine.scheduling.configuration import ConfigurationError
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.scheduling.featuregates import FeatureGate
from volcanoio.model.base import ApiObject
from volcanoio.model.core import PodDisruptionBudget, PriorityClass
from volcanoio.model.durations import DurationError, seconds
from volcanoio.model.storage import CSIDriver, CSIStorageCapacity
from volcanoio.runtime.loading import PluginError
from volcanoio.runtime.mounted import MountError

SAMPLING = ("minimum_feasible_nodes", "minimum_percentage_nodes_to_find", "percentage_nodes_to_find")
"""Flags that make Volcano look at some of the nodes."""
GATES = {
    "CSIStorage": False,
    "CronVolcanoJobSupport": True,
    "DynamicResourceAllocation": True,
    "PodDisruptionBudgetsSupport": True,
    "PodSchedulingReadiness": True,
    "PriorityClass": True,
    "QueueCommandSync": True,
    "ResourceTopology": True,
    "SchedulingGatesQueueAdmission": False,
    "VolcanoJobSupport": True,
    "WorkLoadSupport": True,
}
"""Feature gates by their defaults."""
EFFECTIVE = ("PodDisruptionBudgetsSupport", "PriorityClass", *FeatureGate)
"""Those that alter a decision here."""


def run_simulate(*, files: Sequence[Path], conf: Path | None, output: str, **given: Any) -> int:
    """Simulate and print; returns the exit code. Raises CommandError."""
    collect_rarely()
    _refuse_sharding(given["scheduler_sharding_mode"])
    gates = _gates(given["feature_gates"])
    notes = [*_sampling_notes(given), *_gate_notes(gates)]
    with _told(conf):
        options = SimulateOptions(
            files=[_source(path) for path in files],
            configuration=_text(conf),
            cycles=given["cycles"],
            scheduler_names=given["scheduler_name"],
            default_queue=given["default_queue"],
            unseen=_unseen(given, gates),
            feature_gates=frozenset(gate for gate in FeatureGate if gates[gate]),
            node_selector=_labels(given["node_selector"]),
            ignored_provisioners=_listed(given["ignored_provisioners"]),
            period=_period(given["schedule_period"]),
            now=_moment(given["now"]),
            ignore_unavailable=given["ignore_unavailable_plugins"],
            plugins_dirs=given["plugins_dir"],
        )
        simulation = simulate(options)
    for warning in simulation.warnings:
        print(f"warning: {conf}: {warning}" if conf else f"warning: {warning}", file=sys.stderr)
    for note in (*notes, *simulation.notes):
        print(f"note: {note}", file=sys.stderr)
    if output == "json":
        print(msgspec.json.encode(simulation.offline.outcome()).decode(), flush=True)
    else:
        from volcanoio.cli.simulationtable import table

        print(table(simulation.offline), flush=True)
    return ExitCode.OK


def _sampling_notes(given: dict[str, Any]) -> list[str]:
    used = [f"--{name.replace('_', '-')}" for name in SAMPLING if given[name] is not None]
    return [f"{', '.join(used)}: without effect, as all nodes are looked at"] if used else []


def _refuse_sharding(mode: str) -> None:
    if mode not in ("none", "hard", "soft"):
        msg = f"--scheduler-sharding-mode: there is no mode {mode}; write none, the only one available yet"
        raise CommandError(msg, ExitCode.USAGE)
    if mode != "none":
        msg = f"--scheduler-sharding-mode: {mode} is not available yet; leave it at none"
        raise CommandError(msg, ExitCode.USAGE)


def _gates(given: Sequence[str]) -> dict[str, bool]:
    gates = dict(GATES)
    for entry in _listed(given):
        name, equals, value = entry.partition("=")
        if name not in gates:
            msg = f"--feature-gates: {name} is unknown{suggestion(name, sorted(gates))}"
            raise CommandError(msg, ExitCode.USAGE)
        if not equals or value.lower() not in ("true", "false"):
            msg = f"--feature-gates: {entry} is no switch; write {name}=true or {name}=false"
            raise CommandError(msg, ExitCode.USAGE)
        gates[name] = value.lower() == "true"
    return gates


def _gate_notes(gates: dict[str, bool]) -> list[str]:
    changed = [name for name, on in gates.items() if on is not GATES[name] and name not in EFFECTIVE]
    return [f"--feature-gates: {', '.join(changed)}: without effect here"] if changed else []


def _unseen(given: dict[str, Any], gates: dict[str, bool]) -> tuple[type[ApiObject], ...]:
    """The kinds that a scheduler with these switches does not watch."""
    kinds: list[type[ApiObject]] = []
    if not (given["priority_class"] and gates["PriorityClass"]):
        kinds.append(PriorityClass)
    if not given["csi_storage"]:
        kinds += [CSIDriver, CSIStorageCapacity]
    if not gates["PodDisruptionBudgetsSupport"]:
        kinds.append(PodDisruptionBudget)
    return tuple(kinds)


def _listed(given: Sequence[str]) -> list[str]:
    """Entries of a flag that may be repeated and may hold several, separated by commas."""
    return [entry.strip() for text in given for entry in text.split(",") if entry.strip()]


def _labels(given: Sequence[str]) -> list[tuple[str, str]]:
    labels = []
    for entry in _listed(given):
        key, colon, value = entry.partition(":")
        if not key or not colon:
            msg = f"--node-selector: {entry} is no label; write KEY:VALUE, as in zone:a"
            raise CommandError(msg, ExitCode.USAGE)
        labels.append((key.strip(), value.strip()))
    return labels


def _period(text: str) -> float:
    try:
        return seconds(text)
    except DurationError as error:
        msg = f"--schedule-period: {error}"
        raise CommandError(msg, ExitCode.USAGE) from None


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        msg = f"--now: {text} is no time; write one as 2026-01-01T00:00:00Z"
        raise CommandError(msg, ExitCode.USAGE)
    return moment.timestamp()


def _source(path: Path) -> Path | tuple[str, bytes]:
    """A file, or what stdin has."""
    return path if str(path) != "-" else ("stdin", sys.stdin.buffer.read())


def _text(path: Path | None) -> str | None:
    """The configuration's text; None when none was given."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"--conf {path}: {error.strerror}; give the path of a scheduler's configuration"
        raise CommandError(msg, ExitCode.USAGE) from None
    except UnicodeDecodeError:
        msg = f"--conf {path}: not UTF-8 text; give a YAML file"
        raise CommandError(msg, ExitCode.USAGE) from None


@contextmanager
def _told(conf: Path | None) -> Iterator[None]:
    """Errors of state, configuration and plugins as the command's."""
    try:
        yield
    except ConfigurationError as error:
        lines = str(error).splitlines()
        text = "\n".join(f"{conf}: {line}" for line in lines) if conf else str(error)
        raise CommandError(text, ExitCode.USAGE) from None
    except (StateError, PluginError, MountError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
