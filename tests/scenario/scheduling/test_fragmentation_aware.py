"""Plugin fragmentation-aware: which node keeps the room of GPUs usable for the pods to come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod
from volcanoio.model.base import Manifest

NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"


def conf(*typical: dict[str, Any], policy: str = "scarcity") -> str:
    """Return a configuration with these typical pods."""
    listed = "".join(f"\n      - {entry}" for entry in typical) or " []"
    return f"""
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: fragmentation-aware
    arguments:
      fragmentation-aware.policy: {policy}
      fragmentation-aware.typicalPods:{listed}
"""


def wants(count: int, cards: int, cpu: int = 1, **more: Any) -> dict[str, Any]:
    """Return typical pods that want whole cards."""
    return {"count": count, "requests": {"cpu": str(cpu), NUMBER: str(cards)}, **more}


def gpus(name: str, cards: int, *, cpu: str = "16", **labels: str) -> Manifest:
    """Return a node with cards of 1000 MiB."""
    text = "".join(f"{name}-{at},10,1000,NVIDIA-T4,true,hami-core:" for at in range(cards))
    made = node(name, cpu=cpu, labels=labels, **{NUMBER: "80", MEMORY: "8000"})
    made["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": text}
    return made


def uses(name: str, on: str, *cards: tuple[int, int]) -> Manifest:
    """Return a running pod with so many MiB of each of these cards."""
    text = "".join(f"{on}-{at},T4,{memory},0:" for at, memory in cards) + ";"
    return pod(name, on=on, phase="Running", cpu="1", annotations={"volcano.sh/vgpu-ids-new": text})


def arriving(**requests: str) -> list[Manifest]:
    """Return a pod in a group of its own."""
    return [group("new", 1, phase="Inqueue"), pod("new", "new", **requests)]


WHOLE_CARD, HALF_CARD = {"cpu": "1", NUMBER: "1"}, {"cpu": "1", NUMBER: "1", MEMORY: "500"}

SCENARIOS = [
    Scenario(
        name="a share of a card goes to a card that is shared already",
        conf=conf(wants(1, 1)),
        cluster=[gpus("n1", 1), gpus("n2", 1), uses("old", "n2", (0, 400)), *arriving(**HALF_CARD)],
        binds={"new": "n2"},
    ),
    Scenario(
        name="a node with all its cards idle is kept for pods that need them all",
        conf=conf(wants(9, 1), wants(1, 2)),
        cluster=[gpus("n1", 2), gpus("n2", 2), uses("old", "n2", (0, 1000)), *arriving(**WHOLE_CARD)],
        binds={"new": "n2"},
    ),
    Scenario(
        name="a model that some pods require is kept for them",
        conf=conf(wants(9, 1), wants(1, 1, nodeSelector={"model": "t4"})),
        cluster=[gpus("n1", 1, model="t4"), gpus("n2", 1, model="p100"), *arriving(**WHOLE_CARD)],
        binds={"new": "n2"},
    ),
    Scenario(
        name="a pod without a GPU leaves the cpu beside idle cards",
        conf=conf(wants(1, 1, cpu=4)),
        cluster=[gpus("n1", 1, cpu="4"), gpus("n2", 1, cpu="5"), uses("old", "n2", (0, 1000)), *arriving(cpu="2")],
        binds={"new": "n2"},
    ),
    Scenario(
        name="FGD prefers the node whose fragmentation grows least",
        conf=conf(wants(1, 1), policy="fgd"),
        cluster=[gpus("n1", 1), gpus("n2", 1), uses("old", "n2", (0, 400)), *arriving(**HALF_CARD)],
        binds={"new": "n2"},
    ),
    Scenario(
        name="FGD takes the first of equally good nodes by name",
        conf=conf(wants(1, 1), policy="fgd"),
        cluster=[gpus("n3", 1), gpus("n1", 1), gpus("n2", 1), *arriving(**WHOLE_CARD)],
        binds={"new": "n1"},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_placement(scenario: Scenario) -> None:
    scenario.check()


def test_typical_pods_are_learned_from_those_that_were_seen() -> None:
    pairs = [part for at in range(4) for part in (group(f"pair-{at}", 1), pod(f"pair-{at}", f"pair-{at}", cpu="99"))]
    for at in range(1, len(pairs), 2):
        pairs[at]["spec"]["containers"][0]["resources"]["requests"] |= {NUMBER: "2", "cpu": "1"}
        pairs[at]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    cluster = [gpus("n1", 2), gpus("n2", 2), uses("old", "n2", (0, 1000)), *pairs, *arriving(**WHOLE_CARD)]
    assert World(*cluster, conf=conf()).run().binds == {"new": "n2"}


def test_scores_stay_right_while_pods_come_and_go() -> None:
    cluster = [gpus(f"n{at}", 4) for at in range(1, 4)]
    ran = World(*cluster, conf=conf(wants(3, 1), wants(1, 4)))
    for at, card in enumerate((0, 1, 2)):
        ran.put(uses(f"old-{at}", "n2", (card, 1000)))
        ran.put(group(f"new-{at}", 1, phase="Inqueue"))
        ran.put(pod(f"new-{at}", f"new-{at}", **WHOLE_CARD))
        ran.run()
    assert set(ran.binds.values()) == {"n2"}


def test_beside_deviceshare_the_pod_gets_a_card_of_the_node_with_most_points() -> None:
    share = """
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
"""
    nodes = [gpus(name, 2) for name in ("n1", "n2")]
    for each in nodes:
        each["status"]["allocatable"]["volcano.sh/vgpu-cores"] = "200"
    new = pod("new", "new", cpu="1")
    new["spec"]["containers"][0]["resources"]["limits"] = {NUMBER: "1", MEMORY: "500"}
    cluster = [*nodes, uses("old", "n2", (1, 400)), group("new", 1, phase="Inqueue"), new]
    (bind,) = World(*cluster, conf=conf(wants(1, 1)).rstrip() + share).run().requests
    assert (bind.node, bind.annotations["volcano.sh/vgpu-ids-new"]) == ("n2", "n2-1,NVIDIA,500,0:")


def test_an_unknown_policy_is_an_error_that_names_the_argument() -> None:
    with pytest.raises(ValueError, match=r"fragmentation-aware\.policy"):
        World(conf=conf(policy="best"))
