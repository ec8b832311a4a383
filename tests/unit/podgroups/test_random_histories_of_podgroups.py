"""Random histories of pods, workloads, refusals and restarts: what is there in the end follows from what is stored."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.podgroups.workloads import Workloads
from volcanoio.model import kinds, names
from volcanoio.model.core import Pod

OWNERS = ("web", "db")
INDEXES = st.integers(0, 2)
OWNED = st.sampled_from(OWNERS)

STEPS = st.one_of(
    st.tuples(st.just("scale"), OWNED, INDEXES),
    st.tuples(st.just("minimum"), OWNED, INDEXES),
    st.tuples(st.just("pod"), OWNED, INDEXES),
    st.tuples(st.just("pod ends"), OWNED, INDEXES),
    st.tuples(st.just("pod goes"), OWNED, INDEXES),
    st.tuples(st.just("owner goes"), OWNED, st.just(0)),
    st.tuples(st.just("group goes"), OWNED, st.just(0)),
    st.tuples(st.just("bare"), OWNED, INDEXES),
    st.tuples(st.just("refuse"), OWNED, INDEXES),
    st.tuples(st.just("kill"), OWNED, INDEXES),
    st.tuples(st.just("restart"), OWNED, st.just(0)),
    st.tuples(st.just("wait"), OWNED, INDEXES),
)


class History:
    """A world, and the workloads as they were last stored."""

    def __init__(self) -> None:
        self.world = Workloads()
        self.workloads: dict[str, dict[str, Any]] = {}

    def take(self, what: str, owner: str, number: int) -> None:
        world, pod = self.world, f"{owner}-{number}"
        pods = {key[1].removeprefix("ns/") for key in world.objects if key[0] == kinds.POD.resource}
        match what:
            case "scale" | "minimum":
                known = self.workloads.setdefault(owner, {"scale": 1, "minimum": 1})
                known[what] = number
                minimum = {names.GROUP_MIN_MEMBER: str(known["minimum"])}
                world.workload(kinds.REPLICA_SET, owner, known["scale"], **minimum)
            case "pod" if pod not in pods:
                world.pod(pod, kinds.REPLICA_SET, owner)
            case "bare" if f"bare-{pod}" not in pods:
                world.pod(f"bare-{pod}")
            case "pod ends" if pod in pods:
                stored = world.objects[kinds.POD.resource, f"ns/{pod}"]
                world.put(kinds.POD, {**stored, "status": {"phase": "Succeeded"}})
            case "pod goes" if pod in pods:
                world.remove(kinds.POD, f"ns/{pod}")
            case "owner goes" if owner in self.workloads:
                del self.workloads[owner]
                world.remove(kinds.REPLICA_SET, f"ns/{owner}")
            case "group goes" if f"podgroup-{owner}-uid" in world.groups():
                world.remove(kinds.POD_GROUP, f"ns/podgroup-{owner}-uid")
            case "refuse":
                world.refuse = [(500, "refused")] * number
            case "kill":
                world.dies_at = number + 1
            case "restart":
                world.start()
            case "wait":
                world.wait(float(number))
            case _:
                pass

    def run_until_stable(self) -> None:
        """Run without refusals and crashes until nothing changes."""
        self.world.refuse, self.world.dies_at = [], 0
        self.world.wait(200)


@examples(200)
@given(st.lists(STEPS, max_size=25))
def test_in_the_end_every_live_pod_is_in_a_group_that_is_as_it_should_be(steps: list[tuple[str, str, int]]) -> None:
    history = History()
    for step in steps:
        history.take(*step)
    history.run_until_stable()
    world = history.world
    groups, marks = world.groups(), world.marks()
    for (resource, key), stored in world.objects.items():
        if resource != kinds.POD.resource or stored["status"]["phase"] != "Pending":
            continue
        name = key.removeprefix("ns/")
        owner = name.rpartition("-")[0]
        if name.startswith("bare-"):
            assert marks[name] == f"podgroup-{name}-uid"
            assert marks[name] in groups
        elif history.workloads.get(owner, {}).get("scale"):
            assert marks[name] == f"podgroup-{owner}-uid"
            known = history.workloads[owner]
            assert groups[marks[name]].spec.min_member == min(known["minimum"], known["scale"])
    for owner, known in history.workloads.items():
        assert known["scale"] or f"podgroup-{owner}-uid" not in groups
    written = list(world.writes)
    world.start()
    world.wait(200)
    assert world.writes == written, "a new process finds nothing to do"


def test_the_simulation_tracks_its_pods() -> None:
    """The worlds above are only worth something if pods are read as the controller reads them."""
    world = Workloads()
    world.pod("a", kinds.REPLICA_SET, "web")
    held = world.host["pg-controller"].objects("ns/podgroup-web-uid", kinds.POD.resource)
    assert [pod.metadata.name for pod in held if isinstance(pod, Pod)] == ["a"]
