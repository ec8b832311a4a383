"""What a kubelet checks of a pod's wishes before it admits it: node affinity, NoExecute taints and host ports.

Kubernetes: `pkg/kubelet/lifecycle/predicate.go`; the texts are those of the scheduler's plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple, Protocol

from volcanoio.model.core import NodeSelectorTerm, Pod, Taint, Toleration
from volcanoio.model.requirements import satisfied


class Refusal(Protocol):
    """Why a node refuses a pod, as Kubernetes words it."""

    @property
    def reason(self) -> str:
        """One word: `OutOfcpu`, `NodeAffinity` …"""
        ...

    @property
    def message(self) -> str:
        """What is wrong."""
        ...


class Unwelcome(NamedTuple):
    """A refusal that is not about amounts."""

    reason: str
    message: str


class Port(NamedTuple):
    """A port of the host that a container takes."""

    ip: str
    protocol: str
    number: int

    def clashes(self, other: Port) -> bool:
        """Whether both cannot be had; no address means all."""
        everywhere = ("", "0.0.0.0")
        same = self.ip == other.ip or self.ip in everywhere or other.ip in everywhere
        return same and self.protocol == other.protocol and self.number == other.number


def host_ports(pod: Pod) -> tuple[Port, ...]:
    """The ports of the host that a pod takes."""
    return tuple(
        Port(port.host_ip, port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def objection(
    pod: Pod, name: str, labels: Mapping[str, str], taints: Iterable[Taint], taken: Set[Port]
) -> Unwelcome | None:
    """The first reason why a node of that name, with these labels, taints and ports taken, refuses a pod."""
    if not _wants(pod, name, labels):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if taken and any(port.clashes(other) for port in host_ports(pod) for other in taken):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    for taint in taints:
        if taint.effect == "NoExecute" and not any(tolerates(each, taint) for each in pod.spec.tolerations):
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, why: str) -> Unwelcome:
    return Unwelcome(predicate, f"Predicate {predicate} failed: {why}")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration is for this taint."""
    if toleration.effect not in ("", taint.effect) or (toleration.key and toleration.key != taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _wants(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Whether node selector and required node affinity hold."""
    if pod.spec.node_selector and any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(_holds(term, name, labels) for term in required.node_selector_terms)


def _holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(satisfied(each, labels.get(each.key)) for each in term.match_expressions) and all(
        satisfied(each, name if each.key == "metadata.name" else None) for each in term.match_fields
    )
