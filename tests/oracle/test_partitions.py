"""Jobs with sub-jobs: the engine places and evicts whole sub-jobs, the required ones first, as the oracle."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.changes import CHANGES, change
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.partitions import partitioned, roled
from tests.oracle.worlds import Mix, worlds
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

ACTIONS = ("enqueue, allocate, backfill", "allocate, backfill", "allocate")
USUAL = ("priority", "overcommit", "drf", "proportion", "nodeorder", "binpack")
RUNNING = Mix(running=True, jobs=3)


@examples(80)
@given(confs(ACTIONS, ("gang", "predicates"), USUAL), partitioned(worlds(RUNNING)))
def test_sub_jobs_are_placed_as_by_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(
    confs(ACTIONS, ("gang", "predicates"), USUAL),
    partitioned(worlds(RUNNING)),
    st.lists(CHANGES, min_size=1, max_size=3),
    st.data(),
)
def test_sub_jobs_are_placed_as_by_the_oracle_over_several_cycles(
    conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    world = World(*objects, conf=conf)
    compare(world, conf)
    for number, each in enumerate(changes):
        world.echo()
        change(world, each, data.draw, RUNNING, 10 + number)
        compare(world, conf)


@examples(60)
@given(
    confs(
        ("preempt", "allocate, preempt", "reclaim, allocate", "reclaim, preempt"),
        always=("predicates",),
        maybe=("proportion", "nodeorder"),
        first=("priority", "gang"),
    ),
    roled(partitioned(contested(Mix(limits=True)))),
)
def test_sub_jobs_evict_as_in_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)
