"""Kubelet admission: node affinity, NoExecute taints, host ports and resources, checked before a pod is accepted.

Kubernetes: `pkg/kubelet/lifecycle/predicate.go` over `noderesources.Fits`; the messages are those of the scheduler's
plugins. The node adds up requests with its own arithmetic, so it detects errors of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from volcanoio.model.core import Container, Pod, Taint
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, amounts, maximum
from volcanoio.model.selectors import NO_EXECUTE, first_untolerated, matches_required


class Rejection(Protocol):
    """Reason why a node refuses a pod, in the words of Kubernetes."""

    @property
    def reason(self) -> str:
        """Reason as one word, such as `OutOfcpu` or `NodeAffinity`."""
        ...

    @property
    def message(self) -> str:
        """Message that describes the failure."""
        ...


class PredicateFailure(NamedTuple):
    """Refusal for another reason than amounts."""

    reason: str
    message: str


class Port(NamedTuple):
    """Host port of a container."""

    ip: str
    protocol: str
    number: int

    def clashes(self, other: Port) -> bool:
        """Return whether two ports conflict; no address means all addresses."""
        everywhere = ("", "0.0.0.0")
        same = self.ip == other.ip or self.ip in everywhere or other.ip in everywhere
        return same and self.protocol == other.protocol and self.number == other.number


def host_ports(pod: Pod) -> tuple[Port, ...]:
    """Return the host ports of a pod."""
    return tuple(
        Port(port.host_ip, port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def failed_predicate(
    pod: Pod, name: str, labels: Mapping[str, str], taints: Iterable[Taint], taken: Set[Port]
) -> PredicateFailure | None:
    """Return the first reason why a node refuses a pod.

    The node is given by its name, labels, taints and used ports.
    """
    if not matches_required(pod.spec, name, labels):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if taken and any(port.clashes(other) for port in host_ports(pod) for other in taken):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if first_untolerated(taints, pod.spec.tolerations, (NO_EXECUTE,)) is not None:
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, why: str) -> PredicateFailure:
    return PredicateFailure(predicate, f"Predicate {predicate} failed: {why}")


_WHOLE = frozenset({CPU, MEMORY, PODS})
_FIRST = (PODS, CPU, MEMORY, "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """Missing amount of a resource; `reason` and `message` are in the words of Kubernetes."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """Reason as one word, such as `OutOfcpu`, `OutOfpods` or `OutOfnvidia.com/gpu`."""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        """Message with CPU in milli-cores, memory in bytes, and other resources in units."""
        scale = 1 if self.resource in _WHOLE else 1000
        requested, used, capacity = (-(-value // scale) for value in (self.requested, self.used, self.capacity))
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {requested}, used: {used}, capacity: {capacity}"
        )


def pod_requests(pod: Pod) -> Amounts:
    """Return the requests of a pod.

    That is the larger of its containers together and each init step, plus overhead, and one pod.

    A container without a request for a resource takes its limit. Sidecars (init containers that restart always) run
    beside all that start after them. Extended resources that are claimed as devices do not count.
    """
    running: Amounts = {}
    peak: Amounts = {}
    claimed = _claimed_resources(pod)
    for container in pod.spec.init_containers:
        need = _container_requests(container, claimed)
        if container.restart_policy == "Always":
            add(running, need)
            peak = maximum(peak, running)
        else:
            step = dict(running)
            add(step, need)
            peak = maximum(peak, step)
    for container in pod.spec.containers:
        add(running, _container_requests(container, claimed))
    result = maximum(running, peak)
    if pod.spec.resources is not None:
        result.update(amounts({**pod.spec.resources.limits, **pod.spec.resources.requests}))
    add(result, amounts(pod.spec.overhead))
    result[PODS] = 1
    return result


def _claimed_resources(pod: Pod) -> set[tuple[str, str]]:
    """Return the containers and extended resources for which the pod has a claim."""
    mappings = (pod.status.extended_resource_claim_status or {}).get("requestMappings") or ()
    return {(str(each.get("containerName")), str(each.get("resourceName"))) for each in mappings}


def _container_requests(container: Container, claimed: Set[tuple[str, str]]) -> Amounts:
    wanted = {**container.resources.limits, **container.resources.requests}
    return amounts({name: amount for name, amount in wanted.items() if (container.name, name) not in claimed})


class Usage:
    """Resources and ports that the pods of one node use.

    Invariant: `used` never exceeds `allocatable` by an admission.
    """

    def __init__(self, allocatable: Mapping[str, int]) -> None:
        self.allocatable = dict(allocatable)
        self.used: Amounts = {}
        self._pods: dict[str, Amounts] = {}

    def admit(self, uid: str, requests: Amounts) -> InsufficientResource | None:
        """Admit the pod, or return the reason why not; idempotent for a uid."""
        if uid in self._pods:
            return None
        for name in sorted(requests, key=_check_order):
            requested, used = requests[name], self.used.get(name, 0)
            capacity = self.allocatable.get(name, 0)
            if requested > 0 and used + requested > capacity:
                return InsufficientResource(name, requested, used, capacity)
        self.restore(uid, requests)
        return None

    def restore(self, uid: str, requests: Amounts) -> None:
        """Count a pod that was admitted before this process started."""
        if uid not in self._pods:
            self._pods[uid] = requests
            add(self.used, requests)

    def release(self, uid: str) -> None:
        """Stop counting a pod; an unknown one is no error."""
        requests = self._pods.pop(uid, None)
        if requests is not None:
            add(self.used, requests, -1)


def _check_order(name: str) -> tuple[int, str]:
    """Return the sort key for checks: pods, cpu, memory, ephemeral-storage, then the others."""
    return (_FIRST.index(name), "") if name in _FIRST else (len(_FIRST), name)
