"""Volcano's scheduler flags as options of `up` and `simulate`."""

from __future__ import annotations

from typing import Any

import click
import pytest

from volcanoio.cli.componentflags import SCHEDULING, SchedulerFlags, flags
from volcanoio.cli.main import volcanoio
from volcanoio.cli.terminal import CommandError
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.framework.scheduling.settings import FeatureGate

OF_SIMULATE_ALONE = {"files", "conf", "cycles", "output", "now"}


def taken(*arguments: str) -> SchedulerFlags:
    """What a command's options come to."""

    @click.command()
    @flags("up", only=SCHEDULING)
    def command(**given: Any) -> SchedulerFlags:
        flags = SchedulerFlags.take(given)
        assert given == {}
        return flags

    result = command.main(arguments, standalone_mode=False)
    assert isinstance(result, SchedulerFlags)
    return result


def test_each_flag_of_the_scheduler_that_simulate_takes_is_an_option_of_up() -> None:
    simulate, up = ({each.name for each in volcanoio.commands[name].params} for name in ("simulate", "up"))
    assert simulate - up == OF_SIMULATE_ALONE


def test_without_flags_the_scheduler_is_volcanos_default() -> None:
    assert taken() == SchedulerFlags("default", 1.0, None, frozenset(), ())


def test_flags_select_the_part_of_the_cluster() -> None:
    flags = taken(
        "--node-selector=zone:a,zone:b", "--ignored-provisioners=one,two", "--priority-class=false",
        "--csi-storage=false", "--feature-gates=PodDisruptionBudgetsSupport=false", "--default-queue=q",
        "--schedule-period=250ms",
    )  # fmt: skip
    without = (
        "priorityclasses.scheduling.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "poddisruptionbudgets.policy",
    )
    scope = Scope(without, (("zone", "a"), ("zone", "b")), ("one", "two"))
    assert flags == SchedulerFlags("q", 0.25, scope, frozenset(), ())


def test_gates_are_switched_on_and_those_without_effect_are_named() -> None:
    flags = taken("--feature-gates", "SchedulingGatesQueueAdmission=true,ResourceTopology=false", "--csi-storage")
    assert flags.feature_gates == {FeatureGate.QUEUE_ADMISSION}
    assert flags.notes == ("--feature-gates: ResourceTopology: without effect here",)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--feature-gates=Nope=true", "--feature-gates: Nope is unknown"),
        ("--node-selector=zone", "--node-selector: zone is not a label; write KEY:VALUE"),
        ("--schedule-period=5", "--schedule-period: '5' is not a duration"),
        ("--scheduler-sharding-mode=hard", "--scheduler-sharding-mode: hard is not available yet"),
    ],
)
def test_a_wrong_flag_is_named_with_its_rule(argument: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        taken(argument)
