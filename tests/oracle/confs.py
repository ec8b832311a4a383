"""Random configurations: plugins in tiers, with switches and arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.oracle.plugins.plugin import SWITCHES
from tests.oracle.plugins.table import PLUGINS

WEIGHT = st.integers(0, 3)
ARGUMENTS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "overcommit": st.fixed_dictionaries({}, optional={"overcommit-factor": st.sampled_from([0.5, 1.0, 2])}),
    "nodeorder": st.fixed_dictionaries(
        {},
        optional={
            f"{name}.weight": WEIGHT
            for name in (
                "leastrequested",
                "mostrequested",
                "balancedresource",
                "nodeaffinity",
                "tainttoleration",
                "podaffinity",
                "podtopologyspread",
                "imagelocality",
            )
        },
    ),
    "binpack": st.fixed_dictionaries(
        {}, optional={"binpack.weight": WEIGHT, "binpack.cpu": WEIGHT, "binpack.resources": st.just("nvidia.com/gpu")}
    ),
    "predicates": st.fixed_dictionaries(
        {},
        optional={
            f"predicate.{name}Enable": st.sampled_from([False, True])
            for name in ("NodeAffinity", "TaintToleration", "NodePorts", "PodAffinity", "PodTopologySpread")
        },
    ),
    "namespace-fairshare": st.fixed_dictionaries({}, optional={"patience": st.sampled_from(["30s", "5m", "0s"])}),
    "sla": st.fixed_dictionaries({}, optional={"sla-waiting-time": st.sampled_from(["30s", "1h"])}),
    "tdm": st.fixed_dictionaries(
        {},
        optional={
            "tdm.revocable-zone.night": st.sampled_from(["22:00-06:00", "08:00-12:00"]),
            "tdm.revocable-zone.noon": st.just("11:00-14:00"),
            "tdm.evict.period": st.sampled_from(["1s", "1m"]),
        },
    ),
    "task-topology": st.fixed_dictionaries({}, optional={"task-topology.weight": st.integers(1, 10)}),
    "nodegroup": st.fixed_dictionaries(
        {}, optional={"strict": st.sampled_from([False, True]), "enablePreferredOrder": st.sampled_from([True, False])}
    ),
    "resource-strategy-fit": st.fixed_dictionaries(
        {},
        optional={
            "resourceStrategyFitWeight": st.sampled_from([0, 1, 10]),
            "resources": st.fixed_dictionaries(
                {},
                optional={
                    name: st.fixed_dictionaries(
                        {"type": st.sampled_from(["MostAllocated", "LeastAllocated"])},
                        optional={"weight": st.integers(1, 3)},
                    )
                    for name in ("cpu", "memory", "nvidia.com/*")
                },
            ),
            "sra": st.fixed_dictionaries(
                {"enable": st.just(True), "resources": st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu, cpu"])},
                optional={"weight": WEIGHT, "resourceWeight": st.just({"nvidia.com/gpu": 3})},
            ),
            "proportional": st.fixed_dictionaries(
                {"enable": st.just(True), "resources": st.just("nvidia.com/gpu")},
                optional={"resourceProportion": st.just({"nvidia.com/gpu.cpu": 2, "nvidia.com/gpu.memory": 0.5})},
            ),
        },
    ),
    "usage": st.fixed_dictionaries(
        {},
        optional={
            "usage.weight": WEIGHT,
            "cpu.weight": WEIGHT,
            "thresholds": st.fixed_dictionaries({}, optional={"cpu": st.just(50), "mem": st.just(60)}),
            "estimator": st.fixed_dictionaries(
                {},
                optional={
                    "request_ratio": st.sampled_from([0.5, 0.25]),
                    "burst_ratio": st.sampled_from([0.5, 0.0]),
                    "risk_threshold": st.sampled_from([0.25, 0.5]),
                    "risk_factor": st.sampled_from([1.0, 1.5, 2.0]),
                },
            ),
        },
    ),
    "rescheduling": st.fixed_dictionaries(
        {
            "interval": st.sampled_from(["1m", "30s"]),
            "strategies": st.lists(
                st.builds(
                    lambda low, target: {
                        "name": "lowNodeUtilization",
                        "params": {"thresholds": low, "targetThresholds": target},
                    },
                    st.sampled_from([{"cpu": 40, "memory": 60}, {"cpu": 40, "memory": 60, "pods": 2}, {"pods": 3}]),
                    st.sampled_from([{"cpu": 60, "memory": 70}, {"pod": 2}, {"cpu": 80}, {}]),
                ),
                min_size=1,
                max_size=2,
            ),
        }
    ),
    "capacity": st.fixed_dictionaries({}, optional={"ancestorReclaimLevel": st.integers(0, 2)}),
}
"""Strategies for the arguments of plugins; plugins that are not listed get none."""


def text(actions: str, tiers: Sequence[Sequence[Mapping[str, Any]]], **configurations: Mapping[str, Any]) -> str:
    """Return a configuration file as JSON, which is YAML too."""
    return json.dumps(
        {
            "actions": actions,
            "tiers": [{"plugins": list(tier)} for tier in tiers],
            "configurations": [{"name": name, "arguments": given} for name, given in configurations.items()],
        }
    )


@st.composite
def confs(
    draw: Any,
    /,
    actions: Sequence[str],
    always: Sequence[str],
    maybe: Sequence[str],
    given: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {},
    entries: Mapping[str, Mapping[str, Any]] = {},
    first: Sequence[str] = (),
    **configurations: st.SearchStrategy[dict[str, Any]],
) -> str:
    """One of the texts of actions, plugins that are there always or may be, in any order and tiers.

    `first` are in the first tier, most often all and by themselves: who may take from whom is nearly always said so.
    `given` are arguments in place of those of `ARGUMENTS`, `entries` switches that are always there.
    """
    names = (
        draw(st.permutations([*always, *draw(st.lists(st.sampled_from(maybe), unique=True))])) if maybe else [*always]
    )
    tiers: list[list[dict[str, Any]]] = [[]]
    for at, name in enumerate([*first, *names]):
        ends = at == len(first) if first else draw(st.integers(0, 3)) == 0
        if tiers[-1] and (ends or (at > len(first) and draw(st.integers(0, 3)) == 0)):
            tiers.append([])
        entry: dict[str, Any] = {"name": name, **entries.get(name, {})}
        if draw(st.integers(0, 9 if name in first else 3)) == 9 - 6 * (name not in first):
            entry[draw(st.sampled_from(_switches(name)))] = False
        if arguments := draw({**ARGUMENTS, **given}.get(name, st.just({}))):
            entry["arguments"] = arguments
        tiers[-1].append(entry)
    return text(draw(st.sampled_from(actions)), tiers, **{name: draw(each) for name, each in configurations.items()})


def _switches(name: str) -> list[str]:
    """Return the switches that have an effect on a plugin."""
    found = sorted({switch for method, switch in SWITCHES.items() if hasattr(PLUGINS[name], method)})
    return found or ["enableJobOrder"]
