"""Volcano's scheduler flags, for `simulate` and `up` (cmd/scheduler/app/options)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from volcanoio.cli.terminal import UsageError

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.cluster.scope import Scope
    from volcanoio.framework.scheduling.settings import FeatureGate

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options(*decorators: Decorator) -> Decorator:
    """Combine options that several commands share, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(decorators):
            command = option(command)
        return command

    return add


def switch(name: str, default: bool, text: str) -> Decorator:
    """Add a switch with Go's forms: --name, --name=true, --name=false."""
    return click.option(name, type=click.BOOL, is_flag=False, flag_value="true", default=default, help=text)


SAMPLING = ("minimum_feasible_nodes", "minimum_percentage_nodes_to_find", "percentage_nodes_to_find")
"""Flags with which Volcano evaluates only some of the nodes."""
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
"""Volcano's feature gates and their defaults."""

scheduler_flags = options(
    click.option("--default-queue", default="default", help="Queue of PodGroups without a queue."),
    click.option("--schedule-period", default="1s", help="Longest time between two cycles."),
    switch("--priority-class", True, "Whether PriorityClasses count."),
    switch("--csi-storage", True, "Whether storage capacity counts."),
    click.option(
        "--node-selector",
        multiple=True,
        metavar="KEY:VALUE",
        help="Only nodes with one of these labels; several with commas.",
    ),
    click.option(
        "--ignored-provisioners",
        multiple=True,
        metavar="NAME",
        help="Provisioners whose volumes are ignored; several with commas.",
    ),
    click.option(
        "--feature-gates", multiple=True, metavar="NAME=BOOL", help="Volcano's feature gates; several with commas."
    ),
    *(
        click.option(f"--{name.replace('_', '-')}", type=int, help="Accepted without effect: all nodes are considered.")
        for name in SAMPLING
    ),
    click.option("--scheduler-sharding-mode", default="none", help="none; others are not available yet."),
    click.option("--scheduler-sharding-name", default="volcano", help="The NodeShard to use."),
)
"""The flags as options of a command; `SchedulerFlags.take` reads them."""


class SchedulerFlags(NamedTuple):
    """Values of the flags. `period` is in seconds, `notes` contains flags without effect."""

    default_queue: str
    period: float
    scope: Scope | None
    feature_gates: frozenset[FeatureGate]
    notes: tuple[str, ...]

    @classmethod
    def take(cls, given: dict[str, Any]) -> SchedulerFlags:
        """Remove the flags from a command's options and parse them; raises CommandError for an invalid one."""
        from volcanoio.framework.scheduling.settings import FeatureGate

        given.pop("scheduler_sharding_name")
        _refuse_sharding(given.pop("scheduler_sharding_mode"))
        gates = _gates(given.pop("feature_gates"))
        notes = []
        if used := [f"--{name.replace('_', '-')}" for name in SAMPLING if given.pop(name) is not None]:
            notes.append(f"{', '.join(used)}: without effect, as all nodes are looked at")
        effective = {"PodDisruptionBudgetsSupport", "PriorityClass", *FeatureGate}
        if changed := [name for name, on in gates.items() if on is not GATES[name] and name not in effective]:
            notes.append(f"--feature-gates: {', '.join(changed)}: without effect here")
        return cls(
            default_queue=given.pop("default_queue"),
            period=_period(given.pop("schedule_period")),
            scope=_scope(given, gates),
            feature_gates=frozenset(gate for gate in FeatureGate if gates[gate]),
            notes=tuple(notes),
        )


def _refuse_sharding(mode: str) -> None:
    if mode not in ("none", "hard", "soft"):
        msg = f"--scheduler-sharding-mode: there is no mode {mode}; write none, the only one available yet"
        raise UsageError(msg)
    if mode != "none":
        raise UsageError(f"--scheduler-sharding-mode: {mode} is not available yet; leave it at none")


def _gates(given: Sequence[str]) -> dict[str, bool]:
    from volcanoio.framework.arguments import suggestion

    gates = dict(GATES)
    for entry in _listed(given):
        name, equals, value = entry.partition("=")
        if name not in gates:
            raise UsageError(f"--feature-gates: {name} is unknown{suggestion(name, sorted(gates))}")
        if not equals or value.lower() not in ("true", "false"):
            raise UsageError(f"--feature-gates: {entry} is not a switch; write {name}=true or {name}=false")
        gates[name] = value.lower() == "true"
    return gates


def _scope(given: dict[str, Any], gates: dict[str, bool]) -> Scope | None:
    from volcanoio.engine.scheduling.cluster.scope import Scope
    from volcanoio.model import kinds

    without = []
    if not (given.pop("priority_class") and gates["PriorityClass"]):
        without.append(kinds.PRIORITY_CLASS.resource)
    if not given.pop("csi_storage"):
        without += [kinds.CSI_DRIVER.resource, kinds.CSI_CAPACITY.resource]
    if not gates["PodDisruptionBudgetsSupport"]:
        without.append(kinds.PDB.resource)
    scope = Scope(
        tuple(without), _labels(given.pop("node_selector")), tuple(_listed(given.pop("ignored_provisioners")))
    )
    return scope if scope != Scope() else None


def _listed(given: Sequence[str]) -> list[str]:
    """Split the values of a flag that may be repeated and may contain several, separated by commas."""
    return [entry.strip() for text in given for entry in text.split(",") if entry.strip()]


def _labels(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    labels = []
    for entry in _listed(given):
        key, colon, value = entry.partition(":")
        if not key or not colon:
            raise UsageError(f"--node-selector: {entry} is not a label; write KEY:VALUE, as in zone:a")
        labels.append((key.strip(), value.strip()))
    return tuple(labels)


def _period(text: str) -> float:
    from volcanoio.model.times import DurationError, parse_duration

    try:
        return parse_duration(text)
    except DurationError as error:
        raise UsageError(f"--schedule-period: {error}") from None
