"""Rules of Kubernetes about other pods, checked pod by pod and node by node: affinity, spread, host ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracle.cluster import Cluster, Node, Task
from tests.oracle.labels import affine, selects, untolerated

Term = Mapping[str, Any]


def pods(cluster: Cluster) -> Iterator[tuple[Task, Node]]:
    """Return the pods on nodes, without those that this session evicted."""
    return ((task, node) for node in cluster.nodes for task in node.tasks if not task.evicted)


def together(key: str, one: Node, other: Node) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def terms(task: Task, side: str, kind: str) -> list[Any]:
    """Return the terms of podAffinity or podAntiAffinity, required or preferred."""
    found: list[Any] = (
        task.spec.get("affinity", {}).get(side, {}).get(f"{kind}DuringSchedulingIgnoredDuringExecution", [])
    )
    return found


def meant(term: Term, owner: Task, other: Task, cluster: Cluster) -> bool:
    """Return whether a term of one pod selects another pod."""
    selector = term.get("namespaceSelector")
    namespaces = term.get("namespaces") or ([] if selector is not None else [owner.namespace])
    if other.namespace not in namespaces and not selects(selector, cluster.namespaces.get(other.namespace, {})):
        return False
    for key in term.get("matchLabelKeys", []):
        if key in owner.labels and other.labels.get(key) != owner.labels[key]:
            return False
    for key in term.get("mismatchLabelKeys", []):
        if key in owner.labels and other.labels.get(key) == owner.labels[key]:
            return False
    return selects(term.get("labelSelector"), other.labels)


def has_company(task: Task, node: Node, cluster: Cluster) -> bool:
    """Check required affinity: each domain has a pod that all terms select; a group's first pod may use any node."""
    wanted = terms(task, "podAffinity", "required")
    if any(term["topologyKey"] not in node.labels for term in wanted):
        return False
    company = [(t, at) for t, at in pods(cluster) if wanted and all(meant(term, task, t, cluster) for term in wanted)]
    if all(any(together(term["topologyKey"], node, at) for _, at in company) for term in wanted):
        return True
    anywhere = any(term["topologyKey"] in at.labels for term in wanted for _, at in company)
    return not anywhere and all(meant(term, task, task, cluster) for term in wanted)


def keeps_apart(task: Task, node: Node, cluster: Cluster) -> bool:
    """Check required anti-affinity, of the pod and of pods on nodes."""
    for other, at in pods(cluster):
        for term in terms(task, "podAntiAffinity", "required"):
            if meant(term, task, other, cluster) and together(term["topologyKey"], node, at):
                return False
        for term in terms(other, "podAntiAffinity", "required"):
            if meant(term, other, task, cluster) and together(term["topologyKey"], node, at):
                return False
    return True


def constraints(task: Task, when: str) -> list[Any]:
    return [
        each
        for each in task.spec.get("topologySpreadConstraints", [])
        if each.get("whenUnsatisfiable", "DoNotSchedule") == when
    ]


def spreads_over(constraint: Term, owner: Task, other: Task) -> bool:
    """Return whether a constraint selects a pod."""
    selector = constraint.get("labelSelector")
    if other.namespace != owner.namespace or not selects(selector, other.labels):
        return False
    return all(
        other.labels.get(key) == owner.labels[key]
        for key in constraint.get("matchLabelKeys", [])
        if key in owner.labels
    )


def counting(task: Task, among: list[Any], constraint: Term, cluster: Cluster) -> list[Node]:
    """Return the nodes whose pods count: with all topology labels, and feasible as far as the policies require."""
    nodes = [node for node in cluster.nodes if all(each["topologyKey"] in node.labels for each in among)]
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        nodes = [node for node in nodes if affine(task.spec, node.name, node.labels)]
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor":
        nodes = [node for node in nodes if not untolerated(task.spec, node.taints)]
    return nodes


def number_on(constraint: Term, task: Task, nodes: list[Node]) -> int:
    """Count the pods of a constraint on nodes, without terminating ones; an empty selector counts none."""
    selector = constraint.get("labelSelector") or {}
    if (
        not selector.get("matchLabels")
        and not selector.get("matchExpressions")
        and not constraint.get("matchLabelKeys")
    ):
        return 0
    return sum(t.state != "releasing" and spreads_over(constraint, task, t) for node in nodes for t in node.tasks)


def is_even(task: Task, node: Node, cluster: Cluster) -> bool:
    """Check required spread: with this pod, the domain has at most maxSkew more than the smallest one."""
    hard = constraints(task, "DoNotSchedule")
    for each in hard:
        key = each["topologyKey"]
        if key not in node.labels:
            return False
        nodes = counting(task, hard, each, cluster)
        domains = {at.labels[key] for at in nodes}
        numbers = {name: number_on(each, task, [at for at in nodes if at.labels[key] == name]) for name in domains}
        least = min(numbers.values()) if len(numbers) >= max(each.get("minDomains") or 1, 1) else 0
        if numbers.get(node.labels[key], 0) + spreads_over(each, task, task) - least > each.get("maxSkew", 1):
            return False
    return True


def ports(task: Task) -> list[tuple[str, int, str]]:
    """Return protocol, number and address of the host ports of a pod."""
    return [
        (port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in task.spec["containers"]
        for port in container.get("ports", [])
        if port.get("hostPort")
    ]


def ports_are_free(task: Task, node: Node) -> bool:
    return not any(
        mine[:2] == taken[:2] and (mine[2] == taken[2] or "0.0.0.0" in (mine[2], taken[2]))
        for mine in ports(task)
        for other in node.tasks
        if not other.evicted
        for taken in ports(other)
    )
