"""Plugin nodeorder: the scorers of Kubernetes, each from 0 to 100 times its weight."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, log, sqrt

from tests.oracle.cluster import Node, Task
from tests.oracle.labels import SOFT, term_matches, tolerates
from tests.oracle.plugins import podrules
from tests.oracle.plugins.plugin import Plugin

WEIGHTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "balancedresource": 1,
    "nodeaffinity": 2,
    "tainttoleration": 3,
    "podaffinity": 2,
    "podtopologyspread": 2,
    "imagelocality": 1,
}
HOST = "kubernetes.io/hostname"


class Nodeorder(Plugin):
    def weight(self, name: str) -> int:
        return int(self.arguments.get(f"{name}.weight", WEIGHTS[name]))

    def score(self, task: Task, node: Node) -> float:
        """Score what depends on the node alone: its used resources and its images."""
        return float(
            least(task, node) * self.weight("leastrequested")
            + most(task, node) * self.weight("mostrequested")
            + balanced(task, node) * self.weight("balancedresource")
            + images(task, node, self.session.cluster.nodes) * self.weight("imagelocality")
        )

    def relative_scores(self, task: Task, node: Node, group: list[Node]) -> Iterator[float]:
        """Yield the scores that are relative to other nodes; a scorer that applies to no node is skipped."""
        nodes = self.session.cluster.nodes
        if wishes(task):
            points = {each.name: wished(task, each) for each in group}
            top = max(points.values())
            yield (points[node.name] * 100 // top if top else 0) * self.weight("nodeaffinity")
        if any(counts_against(task, each) for each in nodes):
            points = {each.name: counts_against(task, each) for each in group}
            top = max(points.values())
            yield (100 - points[node.name] * 100 // top if top else 100) * self.weight("tainttoleration")
        yield self._near(task, node, group) * self.weight("podaffinity")
        yield self._spread(task, node, group) * self.weight("podtopologyspread")

    def _near(self, task: Task, node: Node, group: list[Node]) -> int:
        """Score preferred pod affinity, of the pod and of others towards it; required terms of others count 1."""
        points = {each.name: self._pull(task, each) for each in group}
        span = max(points.values()) - min(points.values())
        return int((points[node.name] - min(points.values())) / span * 100) if span else 0

    def _pull(self, task: Task, node: Node) -> int:
        cluster, total = self.session.cluster, 0
        for other, at in podrules.pods(cluster):
            for owner, about, wanted in ((task, other, True), (other, task, False)):
                for side, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                    terms = [
                        (each["weight"], each["podAffinityTerm"]) for each in podrules.terms(owner, side, "preferred")
                    ]
                    if side == "podAffinity" and not wanted:
                        terms += [(1, term) for term in podrules.terms(owner, side, "required")]
                    for weight, term in terms:
                        if podrules.meant(term, owner, about, cluster):
                            total += sign * weight * podrules.together(term["topologyKey"], node, at)
        return total

    def _spread(self, task: Task, node: Node, group: list[Node]) -> int:
        """Score topology spread: fewer pods in the node's domains are better; nodes without the labels have 0."""
        soft = podrules.constraints(task, "ScheduleAnyway")
        scored = [each for each in group if all(one["topologyKey"] in each.labels for one in soft)]
        if not soft or node not in scored:
            return 0
        crowds = {each.name: self._crowd(task, each, scored) for each in scored}
        top = max(crowds.values())
        return (top + min(crowds.values()) - crowds[node.name]) * 100 // top if top else 100

    def _crowd(self, task: Task, node: Node, scored: list[Node]) -> int:
        soft = podrules.constraints(task, "ScheduleAnyway")
        total = 0.0
        for each in soft:
            key = each["topologyKey"]
            if key == HOST:
                domains, there = len(scored), [node]
            else:
                domains = len({other.labels[key] for other in scored})
                counting = podrules.counting(task, soft, each, self.session.cluster)
                there = [other for other in counting if podrules.together(key, node, other)]
            total += podrules.number_on(each, task, there) * log(domains + 2)
            total += each.get("maxSkew", 1) - 1
        return floor(total + 0.5)


def least(task: Task, node: Node) -> int:
    parts = []
    for name in ("cpu", "memory"):
        if capacity := node.allocatable.get(name, 0):
            free = capacity - node.counted(name) - task.counted[name]
            parts.append(free * 100 // capacity if free > 0 else 0)
    return sum(parts) // len(parts) if parts else 0


def most(task: Task, node: Node) -> int:
    parts = [
        min(node.counted(name) + task.counted[name], node.allocatable[name]) * 100 // node.allocatable[name]
        for name in ("cpu", "memory")
        if node.allocatable.get(name, 0)
    ]
    return sum(parts) // len(parts) if parts else 0


def balanced(task: Task, node: Node) -> int:
    """Score how much more even the use of the node's resources becomes with the task: 50 to 100."""
    names = ["cpu", "memory"] + (["nvidia.com/gpu"] if task.requests.get("nvidia.com/gpu") else [])
    there = [name for name in names if node.allocatable.get(name)]
    before = [min(node.used(name) / node.allocatable[name], 1.0) for name in there]
    after = [min((node.used(name) + task.requests.get(name, 0)) / node.allocatable[name], 1.0) for name in there]
    return 50 + (50 + evenness(after) - evenness(before)) // 2


def evenness(fractions: list[float]) -> int:
    """Compute 100·(1 − σ) of the used fractions."""
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100)
    if not fractions:
        return 100
    mean = 0.0
    for fraction in fractions:
        mean += fraction
    mean /= len(fractions)
    squares = 0.0
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
    return int((1 - sqrt(squares / len(fractions))) * 100)


def images(task: Task, node: Node, nodes: list[Node]) -> int:
    """Score the bytes of images on the node times the share of nodes that have them; 23 to 1000 MB per container."""
    containers = [*task.spec.get("initContainers", []), *task.spec["containers"]]
    found = 0
    for each in containers:
        name = each.get("image", "")
        if name.rfind(":") <= name.rfind("/"):
            name += ":latest"
        if name in node.images:
            found += int(node.images[name] * (sum(name in other.images for other in nodes) / len(nodes)))
    least, most = 23 << 20, (1000 << 20) * len(containers)
    return 100 * (min(max(found, least), most) - least) // (most - least)


def wishes(task: Task) -> list[tuple[int, dict[str, list[dict[str, str]]]]]:
    """Return the preferred terms of node affinity with their weights."""
    affinity = task.spec.get("affinity", {}).get("nodeAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return [(each["weight"], each["preference"]) for each in preferred]


def wished(task: Task, node: Node) -> int:
    return sum(weight for weight, term in wishes(task) if term_matches(term, node.name, node.labels))


def counts_against(task: Task, node: Node) -> int:
    """Count the PreferNoSchedule taints that the task does not tolerate."""
    return sum(taint["effect"] == SOFT and not tolerates(task.spec, taint, ("", SOFT)) for taint in node.taints)
