"""Further kinds that plugins read: what they see, when they are asked again, and that nothing is decided before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, profile
from tests.state_dump import state_dump
from volcanoio.engine.scheduling.cluster.inputs import MIN_CHANGES_KEPT
from volcanoio.engine.scheduling.config.profile import Enabled, Profile
from volcanoio.framework.events import Relisting, Synced
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

QUOTAS = kinds.RESOURCE_QUOTA.resource


class Closed:
    """Nodes are closed while a ResourceQuota bears their name."""

    name = "closed"
    watches: tuple[str, ...] = (QUOTAS,)

    def __init__(self) -> None:
        self.asked = 0
        self._session: SessionView

    def open(self, session: SessionView) -> None:
        self._session = session

    def feasible_depends(self, shape: Shape) -> Depends:
        return Depends.SOURCE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        self.asked += 1
        names = {quota.metadata.name for quota in self._session.objects(QUOTAS).values()}
        closed = np.array([name in names for name in nodes.names], np.bool_)
        return Feasibility(~closed, (("node(s) were closed", closed),))


def quota(name: str, **hard: str) -> Manifest:
    meta = {"name": name, "namespace": "ns", "uid": f"quota-{name}"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def world_of(plugin: object, *objects: Manifest) -> World:
    world = World(*objects, synced=False)
    known = profile()
    tiers = (*known.tiers, (Enabled(plugin, {}),))  # type: ignore[arg-type]  # whatever the test gives
    world.profile = Profile(tiers, known.actions)
    return world


def small(name: str) -> list[Manifest]:
    return [group(name, 1), pod(f"{name}-0", name, cpu="1")]


def test_a_plugin_sees_the_objects_it_watches() -> None:
    world = world_of(Closed(), node("n1"), node("n2"), quota("n1"), *small("a"))
    world.sync()
    world.run(2)
    assert world.binds == {"a-0": "n2"}


def test_nothing_is_decided_before_they_are_listed_nor_while_they_are_relisted() -> None:
    world = world_of(Closed(), node("n1"), *small("a"))
    for resource in World().state.listed_resources:
        world.fold(Synced(resource=resource))
    with pytest.raises(RuntimeError, match=QUOTAS):
        world.cycle()
    world.sync()
    world.run(2)
    assert world.binds == {"a-0": "n1"}
    world.fold(Relisting(resource=QUOTAS))
    assert world.state.missing == (QUOTAS,)


def test_answers_are_kept_until_an_object_changes() -> None:
    plugin = Closed()
    world = world_of(plugin, node("n1", cpu="1"), quota("n1"), *small("a"))
    world.sync()
    world.run(2)
    asked = plugin.asked
    world.put(quota("n1"))  # the same again
    world.put(node("n9", cpu="1", taints=[{"key": "x", "effect": "NoSchedule"}]))
    world.run(2)
    assert world.binds == {}
    world.remove(kinds.RESOURCE_QUOTA, "ns/n1")
    world.run(1)
    assert world.binds == {"a-0": "n1"}
    assert plugin.asked > asked


def test_a_change_that_no_reader_can_see_starts_no_cycle() -> None:
    world = world_of(Closed(), node("n1"))
    world.sync()
    world.cycle()
    assert world.put(quota("n1", pods="1"))
    assert not world.put(quota("n1", pods="1"))
    assert world.put(quota("n1", pods="2"))
    assert world.remove(kinds.RESOURCE_QUOTA, "ns/n1")
    assert world.state.inputs.version(QUOTAS) == 3
    assert state_dump(world.state)["inputs"] == {}


def test_what_is_not_watched_is_not_read() -> None:
    plugin = Closed()
    plugin.watches = ()
    world = world_of(plugin, node("n1"), *small("a"))
    world.sync()
    with pytest.raises(LookupError, match="resourcequotas are read but not watched"):
        world.run(2)


@pytest.mark.parametrize("resource", ["secrets", "pods", "resourcequota"])
def test_secrets_unknown_kinds_and_what_sessions_have_are_not_watched(resource: str) -> None:
    plugin = Closed()
    plugin.watches = (resource,)
    with pytest.raises(ValueError, match=f'plugin "closed" watches "{resource}"'):
        Profile.of([[plugin]], [])


def test_a_reader_of_changes_gets_the_changed_objects() -> None:
    world = world_of(Closed(), node("n1"), quota("a"), quota("b"))
    inputs = world.state.inputs
    seen = inputs.version(QUOTAS)
    assert inputs.changed_since(QUOTAS, seen) == []
    world.put(quota("b", pods="1"))
    world.remove(kinds.RESOURCE_QUOTA, "ns/a")
    assert inputs.changed_since(QUOTAS, seen) == ["ns/b", "ns/a"]
    assert inputs.changed_since(QUOTAS, -1) is None
    for number in range(3 * MIN_CHANGES_KEPT):
        world.put(quota("b", pods=str(number)))
    assert inputs.changed_since(QUOTAS, seen) is None
    assert inputs.changed_since(QUOTAS, inputs.version(QUOTAS) - MIN_CHANGES_KEPT) == ["ns/b"] * MIN_CHANGES_KEPT
