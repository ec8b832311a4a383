"""The kubelet's own look at resources: a pod that does not fit its node is refused, whoever bound it there.

Kubernetes: `pkg/kubelet/lifecycle/predicate.go` over `noderesources.Fits`. The node sums with its own arithmetic, not
the scheduler's, so that a scheduler's error is seen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from volcanoio.model.core import Container, Pod
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, amounts, maximum

_WHOLE = frozenset({CPU, MEMORY, PODS})


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node refuses a pod; `reason` and `message` as Kubernetes words them."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """`OutOfcpu`, `OutOfmemory`, `OutOfpods`, `OutOfnvidia.com/gpu` …"""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        """CPU in milli-cores, memory in bytes, other resources in units."""
        scale = 1 if self.resource in _WHOLE else 1000
        requested, used, capacity = (-(-value // scale) for value in (self.requested, self.used, self.capacity))
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {requested}, used: {used}, capacity: {capacity}"
        )


def pod_requests(pod: Pod) -> Amounts:
    """What a pod takes: the larger of its containers together and each init step, plus overhead, and one pod.

    A container without a request for a resource takes its limit. Sidecars (init containers that restart always) run
    beside all that start after them.
    """
    running: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        need = _container_requests(container)
        if container.restart_policy == "Always":
            add(running, need)
            peak = maximum(peak, running)
        else:
            step = dict(running)
            add(step, need)
            peak = maximum(peak, step)
    for container in pod.spec.containers:
        add(running, _container_requests(container))
    result = maximum(running, peak)
    if pod.spec.resources is not None:
        result.update(amounts({**pod.spec.resources.limits, **pod.spec.resources.requests}))
    add(result, amounts(pod.spec.overhead))
    result[PODS] = 1
    return result


def _container_requests(container: Container) -> Amounts:
    return amounts({**container.resources.limits, **container.resources.requests})


class Ledger:
    """What the pods of one node take. Invariant: `used` never exceeds `allocatable` by an admission."""

    def __init__(self, allocatable: Mapping[str, int]) -> None:
        self.allocatable = dict(allocatable)
        self.used: Amounts = {}
        self._pods: dict[str, Amounts] = {}

    def admit(self, uid: str, requests: Amounts) -> Rejection | None:
        """Take the pod in, or say why not; asking again for the same uid changes nothing."""
        if uid in self._pods:
            return None
        for name in sorted(requests, key=_check_order):
            requested, used = requests[name], self.used.get(name, 0)
            capacity = self.allocatable.get(name, 0)
            if requested > 0 and used + requested > capacity:
                return Rejection(name, requested, used, capacity)
        self.restore(uid, requests)
        return None

    def restore(self, uid: str, requests: Amounts) -> None:
        """Count a pod that was admitted before this process started."""
        if uid not in self._pods:
            self._pods[uid] = requests
            add(self.used, requests)

    def release(self, uid: str) -> None:
        """Stop counting a pod; unknown ones are no error."""
        requests = self._pods.pop(uid, None)
        if requests is not None:
            add(self.used, requests, -1)


def _check_order(name: str) -> tuple[int, str]:
    """Kubernetes looks at pods, cpu, memory, then the others."""
    return ((PODS, CPU, MEMORY).index(name), "") if name in _WHOLE else (3, name)
