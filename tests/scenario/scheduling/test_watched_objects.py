"""Objects of further kinds that plugins watch: when plugins get them, and when cached answers are dropped."""

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


class ClosesNodes:
    """A plugin that closes each node for which there is a ResourceQuota of that name."""

    name = "closed"
    watches: tuple[str, ...] = (QUOTAS,)

    def __init__(self) -> None:
        self.calls = 0
        self._session: SessionView

    def open(self, session: SessionView) -> None:
        self._session = session

    def feasible_depends(self, shape: Shape) -> Depends:
        return Depends.SOURCE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        self.calls += 1
        names = {quota.metadata.name for quota in self._session.objects(QUOTAS).values()}
        closed = np.array([name in names for name in nodes.names], np.bool_)
        return Feasibility(~closed, (("node(s) were closed", closed),))


def quota(name: str, **hard: str) -> Manifest:
    meta = {"name": name, "namespace": "ns", "uid": f"quota-{name}"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def world_of(plugin: object, *objects: Manifest) -> World:
    world = World(*objects, synced=False)
    known = profile()
    tiers = (*known.tiers, (Enabled(plugin, {}),))  # type: ignore[arg-type]  # a plugin of the test
    world.profile = Profile(tiers, known.actions)
    return world


def small(name: str) -> list[Manifest]:
    return [group(name, 1), pod(f"{name}-0", name, cpu="1")]


def test_a_plugin_gets_the_objects_that_it_watches() -> None:
    world = world_of(ClosesNodes(), node("n1"), node("n2"), quota("n1"), *small("a"))
    world.sync()
    world.run(2)
    assert world.binds == {"a-0": "n2"}


def test_no_cycle_runs_before_watched_objects_are_listed_or_while_they_are_listed_again() -> None:
    world = world_of(ClosesNodes(), node("n1"), *small("a"))
    for resource in World().state.listed_resources:
        world.fold(Synced(resource=resource))
    with pytest.raises(RuntimeError, match=QUOTAS):
        world.cycle()
    world.sync()
    world.run(2)
    assert world.binds == {"a-0": "n1"}
    world.fold(Relisting(resource=QUOTAS))
    assert world.state.missing == (QUOTAS,)


def test_answers_of_a_filter_are_cached_until_a_watched_object_changes() -> None:
    plugin = ClosesNodes()
    world = world_of(plugin, node("n1", cpu="1"), quota("n1"), *small("a"))
    world.sync()
    world.run(2)
    calls = plugin.calls
    world.put(quota("n1"))  # unchanged
    world.put(node("n9", cpu="1", taints=[{"key": "x", "effect": "NoSchedule"}]))
    world.run(2)
    assert world.binds == {}
    world.remove(kinds.RESOURCE_QUOTA, "ns/n1")
    world.run(1)
    assert world.binds == {"a-0": "n1"}
    assert plugin.calls > calls


def test_an_update_without_a_change_starts_no_cycle() -> None:
    world = world_of(ClosesNodes(), node("n1"))
    world.sync()
    world.cycle()
    assert world.put(quota("n1", pods="1"))
    assert not world.put(quota("n1", pods="1"))
    assert world.put(quota("n1", pods="2"))
    assert world.remove(kinds.RESOURCE_QUOTA, "ns/n1")
    assert world.state.inputs.version(QUOTAS) == 3
    assert state_dump(world.state)["inputs"] == {}


def test_reading_a_kind_that_is_not_watched_is_an_error() -> None:
    plugin = ClosesNodes()
    plugin.watches = ()
    world = world_of(plugin, node("n1"), *small("a"))
    world.sync()
    with pytest.raises(LookupError, match="resourcequotas are read but not watched"):
        world.run(2)


@pytest.mark.parametrize("resource", ["secrets", "pods", "resourcequota"])
def test_watching_secrets_unknown_kinds_or_kinds_of_the_session_is_an_error(resource: str) -> None:
    plugin = ClosesNodes()
    plugin.watches = (resource,)
    with pytest.raises(ValueError, match=f'plugin "closed" watches "{resource}"'):
        Profile.of([[plugin]], [])


def test_changed_objects_are_listed_since_a_version_that_is_not_too_old() -> None:
    world = world_of(ClosesNodes(), node("n1"), quota("a"), quota("b"))
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
