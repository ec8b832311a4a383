"""Deleted PodGroups stay while pods are in them."""

from __future__ import annotations

import pytest

from tests.localcluster.controllers.worlds import World
from volcanoio.localcluster.controllers.groupprotection import GroupProtectionController
from volcanoio.model.kinds import NATIVE_POD_GROUP, POD
from volcanoio.model.workloads import PROTECTION


def group(world: World, name: str = "train", *, deleted: bool = True) -> None:
    meta = {"namespace": "ns", "name": name, "finalizers": [PROTECTION, "example.com/mine"]}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.put(NATIVE_POD_GROUP, {"metadata": meta})


def pod(world: World, name: str, group: str = "train", phase: str = "Running", namespace: str = "ns") -> None:
    spec = {"schedulingGroup": {"podGroupName": group}}
    world.put(POD, {"metadata": {"namespace": namespace, "name": name}, "spec": spec, "status": {"phase": phase}})


def finalizers(world: World) -> list[str]:
    return list(world.get(NATIVE_POD_GROUP, "ns/train")["metadata"].get("finalizers", ()))


def test_a_deleted_group_goes_with_its_last_pod() -> None:
    world = World(GroupProtectionController())
    pod(world, "a")
    pod(world, "b")
    pod(world, "done", phase="Succeeded")
    group(world, deleted=False)
    world.run_until_stable()
    group(world)
    world.run_until_stable()
    assert PROTECTION in finalizers(world)
    world.change(POD, "ns/a", {"status": {"phase": "Failed"}})
    world.run_until_stable()
    assert PROTECTION in finalizers(world)
    world.remove(POD, "ns/b")
    world.run_until_stable()
    assert finalizers(world) == ["example.com/mine"]


@pytest.mark.parametrize(("other", "namespace"), [("other", "ns"), ("train", "elsewhere")])
def test_pods_of_other_groups_keep_it_not(other: str, namespace: str) -> None:
    world = World(GroupProtectionController())
    pod(world, "a", other, namespace=namespace)
    group(world)
    world.run_until_stable()
    assert finalizers(world) == ["example.com/mine"]
