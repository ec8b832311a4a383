"""The engine places pods as the oracle: filters, scores, orders, shares of queues, and caches across cycles."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.changes import CHANGES, change
from tests.oracle.compare import compare
from tests.oracle.confs import confs, text
from tests.oracle.variants import with_images
from tests.oracle.worlds import Mix, worlds
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

ACTIONS = ("enqueue, allocate, backfill", "allocate, backfill", "enqueue, allocate", "enqueue, backfill, allocate")
DEFAULT = text(
    ACTIONS[0],
    [
        [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}],
        [{"name": name} for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")],
    ],
)
CONFS = confs(
    ACTIONS,
    always=("gang", "predicates"),
    maybe=("priority", "conformance", "overcommit", "drf", "proportion", "nodeorder", "binpack"),
)


@examples(60)
@given(worlds(Mix()))
def test_the_default_configuration_decides_as_the_oracle(objects: list[Manifest]) -> None:
    compare(World(*objects, conf=DEFAULT), DEFAULT)


@examples(60)
@given(CONFS, worlds(Mix(rules=True)))
def test_any_configuration_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "nodeorder"), ("priority", "binpack")), with_images(worlds(Mix())))
def test_image_locality_places_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(40)
@given(CONFS, worlds(Mix(rules=True, running=True, jobs=3)), st.lists(CHANGES, min_size=1, max_size=4), st.data())
def test_state_cached_across_cycles_changes_no_decision(
    conf: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    mix = Mix(rules=True)
    world = World(*objects, conf=conf)
    memory: dict[str, Any] = {}
    compare(world, conf, memory)
    for number, each in enumerate(changes):
        world.echo()
        change(world, each, data.draw, mix, 10 + number)
        world.now -= 0.99 * world.period
        compare(world, conf, memory)
