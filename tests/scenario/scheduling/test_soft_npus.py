"""NPUs of HAMi in mode hami-core: exact memory and a percentage of the cores, on nodes that offer it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenario.scheduling.devices import annotated, configuration, groups, npu, npu_node, with_limits
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

CONF = configuration(AscendHAMiVNPUEnable=True)
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
SHARES, RUNTIME = "hami.io/Ascend310P-devices-allocated", "huawei.com/Ascend310P"
TOO_FEW = "no enough ascend device available"
OTHER_MODE = "pod required sharing mode hami-core is not the same as the node mode template"
PARTIAL = "vNPU does not support partial memory allocation when requesting multiple devices"


def offering(*cards: dict[str, Any], mode: str = "true") -> Manifest:
    given = [{"devcore": 100, **card} for card in cards or ({"id": "A"}, {"id": "B"})]
    return annotated(npu_node(*given), **{"hami-vnpu-core": mode})


def soft(count: int = 1, amount: int = 0, cores: int = 0) -> dict[str, str]:
    return {**npu(count, amount), **({"huawei.com/Ascend310P-core": str(cores)} if cores else {})}


def held(shares: str) -> Manifest:
    return with_limits("old", soft(1, 1), on="n1", phase="Running", annotations={**SOFT, SHARES: shares})


def placed(limits: dict[str, str], *cluster: Manifest, annotations: dict[str, str] | None = None) -> World:
    asking = with_limits("p", limits, annotations=SOFT if annotations is None else annotations)
    return World(*cluster, *groups("p"), asking, conf=CONF).run()


@pytest.mark.parametrize(
    ("limits", "shares", "runtime"),
    [
        (soft(1, 4000, 40), "A,Ascend310P,4000,40:;", [{"UUID": "A", "memory": 4000, "core": 40}]),
        (soft(1, 4000), "A,Ascend310P,4000,0:;", [{"UUID": "A", "memory": 4000}]),
        (soft(1), "A,Ascend310P,21527,0:;", [{"UUID": "A", "memory": 21527}]),
        (
            soft(2),
            "A,Ascend310P,21527,0:B,Ascend310P,21527,0:;",
            [{"UUID": "A", "memory": 21527}, {"UUID": "B", "memory": 21527}],
        ),
    ],
)
def test_memory_is_exact_and_the_runtime_gets_it_with_the_cores(
    limits: dict[str, str], shares: str, runtime: list[dict[str, Any]]
) -> None:
    (bind,) = placed(limits, offering()).requests
    assert bind.annotations[SHARES] == shares
    assert json.loads(bind.annotations[RUNTIME]) == runtime


@pytest.mark.parametrize(
    ("others", "limits", "card"),
    [
        ("A,Ascend310P,4000,70:;", soft(1, 4000, 30), "A"),
        ("A,Ascend310P,4000,70:;", soft(1, 4000, 31), "B"),
        ("A,Ascend310P,4000,70:;", soft(1, 4000, 100), "B"),
        ("A,Ascend310P,4000,100:;", soft(1, 4000), "B"),
        ("A,Ascend310P,20000,0:;", soft(1, 4000), "B"),
    ],
)
def test_a_card_is_shared_as_its_cores_and_memory_allow(others: str, limits: dict[str, str], card: str) -> None:
    (bind,) = placed(limits, offering(), held(others)).requests
    assert json.loads(bind.annotations[RUNTIME])[0]["UUID"] == card


@pytest.mark.parametrize(("cores", "card"), [(50, "A"), (51, "B")])
def test_more_than_all_cores_may_be_registered(cores: int, card: str) -> None:
    oversold = offering({"id": "A", "devcore": 150}, {"id": "B", "devcore": 150})
    (bind,) = placed(soft(1, 1, cores), oversold, held("A,Ascend310P,1,50:A,Ascend310P,1,50:;")).requests
    assert json.loads(bind.annotations[RUNTIME])[0]["UUID"] == card


def test_a_pod_with_all_cores_shares_no_oversold_card() -> None:
    oversold = offering({"id": "A", "devcore": 150}, {"id": "B", "devcore": 150})
    (bind,) = placed(soft(1, 1, 20), oversold, held("A,Ascend310P,1,100:;")).requests
    assert json.loads(bind.annotations[RUNTIME])[0]["UUID"] == "B"


@pytest.mark.parametrize(
    ("limits", "cluster", "reason"),
    [
        (soft(1, 4000), [offering(mode="false")], OTHER_MODE),
        (soft(1, 4000), [npu_node({"id": "A"})], OTHER_MODE),
        (soft(2, 4000), [offering()], PARTIAL),
        (soft(1, 30000), [offering()], TOO_FEW),
    ],
)
def test_why_a_pod_waits(limits: dict[str, str], cluster: list[Manifest], reason: str) -> None:
    assert placed(limits, *cluster).fit_error("p") == f"0/1 nodes are unavailable: 1 {reason}."


def test_without_the_mode_a_template_is_used_and_cores_do_not_count() -> None:
    (bind,) = placed(soft(1, 4000, 40), offering(), annotations={}).requests
    assert bind.annotations[SHARES] == "A,Ascend310P,6144,0:;"
    assert bind.annotations[RUNTIME] == '[{"UUID":"A","temp":"vir02"}]'
