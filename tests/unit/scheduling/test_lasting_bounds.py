"""What holds at every moment of a cluster's life, counted on its objects alone: nodes, gangs, limits of queues.

Pods that are bound may start late, be refused, or take long to end; the rooms of all of them are taken meanwhile.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.worlds import CLASSES
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.resources import amounts

TIERS = {
    "capacity": "{name: capacity}",
    "tree": "{name: capacity, enableHierarchy: true}",
    "level": "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 2}}",
    "proportion": "{name: proportion}",
}
ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, allocate, backfill, reclaim, preempt",
    "gangpreempt, gangreclaim, allocate, backfill",
    "preempt, reclaim, allocate, backfill",
)
PARENTS = {"top": "root", "a": "top", "b": "top", "c": "root"}
LEAVES = ("a", "b", "c")
JOB = st.fixed_dictionaries(
    {
        "size": st.integers(1, 4),
        "minimum": st.integers(1, 4),
        "cpu": st.sampled_from(["500m", "1", "2", ""]),
        "queue": st.sampled_from(LEAVES),
        "rank": st.sampled_from(["low", "mid", "high"]),
        "at": st.integers(0, 4),
    }
)
LIMIT = st.sampled_from([None, None, 2, 4, 6])
WEATHER = st.sampled_from(["starts", "starts", "late", "refused", "buries", "ends"])


class Life:
    """A cluster whose kubelets and API server take their time."""

    def __init__(self, conf: str, nodes: list[int], limits: dict[str, int | None], jobs: list[Any]) -> None:
        self.world = World(
            *CLASSES, *(node(f"n{at}", cpu=str(cpu), pods="5") for at, cpu in enumerate(nodes)), conf=conf
        )
        self.jobs = jobs
        self.limits = limits
        for name in ("root", *PARENTS):
            spec: dict[str, Any] = {"parent": PARENTS[name]} if name in PARENTS else {}
            if limits.get(name):
                spec["capability"] = {"cpu": str(limits[name])}
            if name in LEAVES:
                spec |= {"deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "1"}} if name == "c" else {}}
            self.world.put(queue(name, **spec))

    def arrive(self, turn: int) -> None:
        for at, job in enumerate(self.jobs):
            if job["at"] == turn:
                minimum = min(job["minimum"], job["size"])
                asked = {"cpu": job["cpu"]} if job["cpu"] else {}
                spec: dict[str, Any] = {"minResources": asked} if asked else {}
                self.world.put(group(f"g{at}", minimum, queue=job["queue"], priorityClassName=job["rank"], **spec))
                for member in range(job["size"]):
                    self.world.put(pod(f"g{at}-{member}", f"g{at}", **asked))

    def pods(self) -> list[Any]:
        return [obj for (resource, _), obj in self.world.objects.items() if resource == kinds.POD.resource]

    def weather(self, what: str, choice: int) -> None:
        """What kubelets and the API server make of it."""
        new = [bind.name for each in self.world.last if isinstance(each, BindBatch) for bind in each.binds]
        refuse = {new[choice % len(new)]: 409} if what == "refused" and new else None
        self.world.echo(refuse=refuse, phase="Pending")
        held = sorted((one for one in self.pods() if one.spec.node_name), key=lambda one: str(one.metadata.name))
        for one in held:
            name = one.metadata.name
            if what == "starts" and one.status.phase == "Pending" and not one.metadata.deletion_timestamp:
                self.world.set_pod(name, phase="Running")
            elif what == "buries" and one.metadata.deletion_timestamp:
                self.world.remove(kinds.POD, f"ns/{name}")
        running = [one for one in held if one.status.phase == "Running"]
        if what == "ends" and running:
            self.world.set_pod(running[choice % len(running)].metadata.name, phase="Succeeded")

    def check_nodes(self) -> None:
        """All pods on a node count until they have ended or are gone."""
        objects: dict[Any, Any] = self.world.objects
        for (resource, name), obj in objects.items():
            if resource != kinds.NODE.resource:
                continue
            taken: Counter[str] = Counter()
            for one in self.pods():
                if one.spec.node_name == name and one.status.phase not in ("Succeeded", "Failed"):
                    taken.update({"pods": 1, **_requests(one)})
            room = amounts(obj.status.allocatable)
            assert all(amount <= room[what] for what, amount in taken.items()), (name, taken)

    def check_limits(self, *, tree: bool) -> None:
        """What runs, or is to, in a queue and those below it: what is ending has been given back."""
        held: Counter[str] = Counter()
        for one in self.pods():
            if not one.spec.node_name or one.metadata.deletion_timestamp or one.status.phase in ("Succeeded", "Failed"):
                continue
            name = self.jobs[int(one.metadata.name[1:].split("-")[0])]["queue"]
            while name:
                held[name] += _requests(one).get("cpu", 0)
                name = PARENTS.get(name, "") if tree else ""
        for name, limit in self.limits.items():
            assert limit is None or held[name] <= 1000 * limit, (name, held)

    def check_gangs(self, bound: Counter[str]) -> None:
        """A gang's first batch has its minimum."""
        for each in self.world.last:
            if isinstance(each, BindBatch):
                job = self.jobs[int(each.group.split("/g")[1])]
                bound[each.group] += len(each.binds)
                assert bound[each.group] >= min(job["minimum"], job["size"])


def _requests(one: Any) -> dict[str, int]:
    return amounts(one.spec.containers[0].resources.requests)


@examples(80)
@given(
    limiting=st.sampled_from(sorted(TIERS)),
    actions=st.sampled_from(ACTIONS),
    nodes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    limits=st.fixed_dictionaries(dict.fromkeys(("top", *LEAVES), LIMIT)),
    jobs=st.lists(JOB, min_size=2, max_size=7),
    weather=st.lists(st.tuples(WEATHER, st.integers(0, 9)), min_size=6, max_size=14),
)
def test_node_capacities_gang_minimums_and_queue_limits_hold_at_every_moment(
    limiting: str,
    actions: str,
    nodes: list[int],
    limits: dict[str, int | None],
    jobs: list[Any],
    weather: list[tuple[str, int]],
) -> None:
    if limiting in ("capacity", "proportion"):
        limits = {name: limits[name] for name in LEAVES}
    conf = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {TIERS[limiting]}, {{name: nodeorder}}]
"""
    life, bound = Life(conf, nodes, limits, jobs), Counter[str]()
    for turn, (what, choice) in enumerate(weather):
        life.arrive(turn)
        life.world.cycle()
        life.check_gangs(bound)
        life.weather(what, choice)
        life.check_nodes()
        life.check_limits(tree=limiting in ("tree", "level"))
