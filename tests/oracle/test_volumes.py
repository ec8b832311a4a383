"""Pods with volume claims: the engine chooses the same nodes and volumes as the oracle."""

from __future__ import annotations

import json

from hypothesis import example, given

from tests.examples import examples
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.stores import stored
from tests.oracle.worlds import CLASSES, Mix, worlds
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from tests.scenario.scheduling.storage import claim, on, storage_class, volume
from volcanoio.model.base import Manifest

CONFS = confs(
    ("enqueue, allocate, backfill", "allocate"),
    ("gang", "predicates"),
    ("priority", "nodeorder", "binpack", "proportion"),
)


@examples(80)
@given(CONFS, stored(worlds(Mix(running=True, jobs=3))))
def test_pods_with_claims_are_placed_as_by_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


GANGS = {
    "actions": "gangpreempt",
    "tiers": [{"plugins": [{"name": name} for name in ("gang", "predicates", "capacity")]}],
}
FULL: list[Manifest] = [
    *CLASSES,
    node("n0", cpu="2"),
    node("n1", cpu="2", labels={"disk": "there"}),
    queue("q", capability={"cpu": "4"}),
    storage_class(),
    claim("data", volume="v"),
    volume("v", phase="Bound", reach=on("disk", "there")),
    group("old", 0, queue="q", phase="Running", priorityClassName="low"),
    *(pod(f"old-{at}", "old", cpu="1", on=f"n{at // 2}", phase="Running") for at in range(4)),
    group("new", 1, queue="q", phase="Inqueue", priorityClassName="high"),
    pod("new", "new", cpu="1", spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
]
"""The queue is full too, so that a pod would be evicted for it even on a node that cannot use the volume."""


@examples(40)
@example(conf=json.dumps(GANGS), objects=FULL)
@given(
    confs(
        ("preempt", "allocate, preempt", "reclaim, allocate", "gangpreempt"),
        always=("predicates",),
        maybe=("proportion", "nodeorder"),
        first=("priority", "gang"),
    ),
    stored(contested(Mix(limits=True))),
)
def test_pods_with_claims_evict_as_in_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)
