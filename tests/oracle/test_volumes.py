"""Pods go where their claims can be had, as the loop has it, and take the volumes that it takes."""

from __future__ import annotations

from hypothesis import given

from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.examples import examples
from tests.oracle.stores import stored
from tests.oracle.worlds import Mix, worlds
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

CONFS = confs(
    ("enqueue, allocate, backfill", "allocate"),
    ("gang", "predicates"),
    ("priority", "nodeorder", "binpack", "proportion"),
)


@examples(80)
@given(CONFS, stored(worlds(Mix(running=True, jobs=3))))
def test_claims(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(
    confs(
        ("preempt", "allocate, preempt", "reclaim, allocate", "gangpreempt"),
        always=("predicates",),
        maybe=("proportion", "nodeorder"),
        first=("priority", "gang"),
    ),
    stored(contested(Mix(limits=True))),
)
def test_claims_of_those_who_evict(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)
