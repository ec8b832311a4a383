"""Endpoints of big Services: what a change costs hangs on the change, and what is there follows from the pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.examples import examples
from tests.localcluster.controllers.worlds import World
from volcanoio.localcluster.controllers.endpoints import service_state
from volcanoio.localcluster.controllers.endpoints.controller import EndpointsController
from volcanoio.localcluster.controllers.endpoints.slices import member as member_of
from volcanoio.localcluster.controllers.objects import ENDPOINT_SLICE, ENDPOINTS
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod, Service
from volcanoio.model.kinds import POD, SERVICE

CAPACITY = "endpoints.kubernetes.io/over-capacity"


def pod(number: int, *, ready: bool = True, web: int = 8080) -> Manifest:
    """A pod of the Service, with an address of its own."""
    ports = [{"name": "web", "containerPort": web}]
    return {
        "metadata": {"name": f"p-{number:05d}", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": ports}]},
        "status": {
            "phase": "Running", "podIP": f"10.0.{number // 250}.{number % 250}",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }  # fmt: skip


def service(**spec: Any) -> Manifest:
    """A Service of pods labelled app=web."""
    base = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}
    return {"metadata": {"name": "svc", "namespace": "ns"}, "spec": base | spec}


def sizes(world: World) -> list[int]:
    """Of each slice, how many endpoints it has; the biggest first."""
    return sorted((len(one["endpoints"]) for one in world.all(ENDPOINT_SLICE)), reverse=True)


def listed(world: World, field: str = "addresses") -> list[str]:
    """The names of the pods in the Endpoints object."""
    (one,) = world.all(ENDPOINTS)
    return [entry["targetRef"]["name"] for subset in one.get("subsets") or () for entry in subset.get(field) or ()]


def test_a_change_of_a_big_service_costs_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def member(of: Service, one: Pod) -> Any:
        looks.append(one.metadata.name)
        return member_of(of, one)

    monkeypatch.setattr(service_state, "member", member)
    world = World(EndpointsController())
    world.put(SERVICE, service())
    for number in range(3050):
        world.put(POD, pod(number))
    world.run_until_stable()
    assert sizes(world) == [100] * 30 + [50]
    assert len(looks) == 3050
    assert world.writes == 31 + 1
    (endpoints,) = world.all(ENDPOINTS)
    assert endpoints["metadata"]["annotations"] == {CAPACITY: "truncated"}
    assert listed(world) == [f"p-{number:05d}" for number in range(1000)]

    def cost() -> tuple[int, int]:
        looks.clear()
        world.writes = 0
        world.run_until_stable()
        return len(looks), world.writes

    world.put(POD, pod(2500, ready=False))
    assert cost() == (1, 1)
    world.put(POD, pod(17, ready=False))
    assert cost() == (1, 2)
    assert listed(world)[16:18] == ["p-00016", "p-00018"]
    world.put(POD, pod(3050))
    assert cost() == (1, 1)
    world.remove(POD, "ns/p-01234")
    assert cost() == (0, 1)
    world.put(POD, pod(9000))  # goes where room is, and no slice is begun for it
    assert cost() == (1, 1)
    assert sizes(world)[0] == 100
    assert len(sizes(world)) == 31


def test_of_too_many_the_ready_ones_are_listed() -> None:
    world = World(EndpointsController())
    world.put(SERVICE, service())
    for number in range(1100):
        world.put(POD, pod(number, ready=number >= 200))
    world.run_until_stable()
    assert len(listed(world)) == 900
    assert listed(world, "notReadyAddresses") == [f"p-{number:05d}" for number in range(100)]
    for number in range(100):
        world.remove(POD, f"ns/p-{number + 1000:05d}")
    world.run_until_stable()
    (one,) = world.all(ENDPOINTS)
    assert not one["metadata"].get("annotations")
    assert len(listed(world)) + len(listed(world, "notReadyAddresses")) == 1000


class Follow(RuleBasedStateMachine):
    """Pods come, change and go while slices are spoilt by others; the slices say once what the pods are."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(EndpointsController())
        self.world.put(SERVICE, service())

    def teardown(self) -> None:
        """However it went, it comes right."""
        self.slices_follow()

    @rule(first=st.integers(0, 300), number=st.integers(1, 130), ready=st.booleans(), web=st.sampled_from([80, 81]))
    def pods_come(self, first: int, number: int, ready: bool, web: int) -> None:
        """New ones, or ones that change."""
        for at in range(first, first + number):
            known = self.world.objects.get(("pods", f"ns/p-{at:05d}"))
            port = known["spec"]["containers"][0]["ports"][0]["containerPort"] if known else web  # never changes
            self.world.put(POD, pod(at, ready=ready, web=port))

    @rule(first=st.integers(0, 300), number=st.integers(1, 130))
    def pods_go(self, first: int, number: int) -> None:
        """Some go, and may come back as others."""
        for at in range(first, first + number):
            if ("pods", f"ns/p-{at:05d}") in self.world.objects:
                self.world.remove(POD, f"ns/p-{at:05d}")

    @rule(pick=st.integers(0, 9), gone=st.booleans())
    def a_slice_is_spoilt(self, pick: int, gone: bool) -> None:
        """Somebody empties or deletes one."""
        known = self.world.all(ENDPOINT_SLICE)
        if known:
            key = "ns/" + known[pick % len(known)]["metadata"]["name"]
            if gone:
                self.world.remove(ENDPOINT_SLICE, key)
            else:
                self.world.change(ENDPOINT_SLICE, key, {"endpoints": [], "metadata": {"labels": {"other": "x"}}})

    @rule(number=st.integers(79, 81))
    def the_service_changes(self, number: int) -> None:
        """Another port, another label."""
        ports = [{"name": f"at-{number}", "port": number, "targetPort": "web" if number > 79 else 79}]
        labels = {"metadata": {"labels": {"at": str(number)}}, "spec": {"ports": ports}}
        self.world.change(SERVICE, "ns/svc", labels)

    @rule()
    def watches_start_again(self) -> None:
        """All is looked at."""
        self.world.look_again()

    @rule(steps=st.integers(1, 3))
    def some_steps(self, steps: int) -> None:
        """The controller is amid its work when the next thing happens."""
        self.world.deliver(60)
        for _ in range(steps):
            self.world.step()

    @rule()
    def slices_follow(self) -> None:
        """In the end each pod is in one slice with its port; none is empty or too big."""
        self.world.run_until_stable()
        held: dict[str, int] = {}
        slices = self.world.all(ENDPOINT_SLICE)
        for one in slices:
            entries = one["endpoints"]
            assert 0 < len(entries) <= 100 or len(slices) == 1
            assert "other" not in one["metadata"]["labels"]
            for entry in entries:
                assert entry["targetRef"]["name"] not in held
                held[entry["targetRef"]["name"]] = one["ports"][0]["port"]
        fixed = self.world.get(SERVICE, "ns/svc")["spec"]["ports"][0]["targetPort"] == 79
        assert held == {
            one["metadata"]["name"]: 79 if fixed else one["spec"]["containers"][0]["ports"][0]["containerPort"]
            for one in self.world.all(POD)
        }
        assert set(listed(self.world) + listed(self.world, "notReadyAddresses")) == held.keys()


TestFollow = Follow.TestCase
TestFollow.settings = examples(20, stateful_step_count=15)
