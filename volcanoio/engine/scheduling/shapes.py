"""Shapes: the scheduling-relevant part of a pod's spec, interned.

Requests follow Kubernetes (`k8s.io/component-helpers/resource`): the larger of the containers with their sidecars and
of the init containers' peaks, plus overhead; pod-level resources win. Volume claims are to enter here, by storage
class and access mode, once a plugin reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.core import Affinity, Container, Pod, PodSpec, ResourceList, Toleration
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, amounts, maximum

DEFAULT_CPU = 100
"""Milli-cores a container counts for in scores when it requests no cpu (Kubernetes: DefaultMilliCPURequest)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Bytes a container counts for in scores when it requests no memory (Kubernetes: DefaultMemoryRequest)."""

_NOTHING: Mapping[str, int] = {}
_NONZERO: Mapping[str, int] = {CPU: DEFAULT_CPU, MEMORY: DEFAULT_MEMORY}


class _Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a shape is made of, as it stands in the spec: the cheap first key of interning."""

    containers: tuple[tuple[object, ...], ...]
    init_containers: tuple[tuple[object, ...], ...]
    overhead: ResourceList
    resources: object
    selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]


class Shapes:
    """The interned shapes of a process, by dense id."""

    def __init__(self) -> None:
        self.all: list[Shape] = []
        self._by_facts: dict[bytes, Shape] = {}
        self._by_content: dict[bytes, Shape] = {}
        self._varied: dict[tuple[int, tuple[tuple[str, str], ...]], Shape] = {}
        self._encode = msgspec.msgpack.Encoder(order="sorted").encode

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod."""
        spec = pod.spec
        facts = self._encode(
            _Facts(
                tuple(_container_facts(item) for item in spec.containers),
                tuple(_container_facts(item) for item in spec.init_containers),
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
            )
        )
        shape = self._by_facts.get(facts)
        if shape is None:
            shape = self._by_facts[facts] = self._intern(spec)
        return shape

    def varied(self, base: Shape, traits: tuple[tuple[str, str], ...]) -> Shape:
        """The shape of tasks that have traits (by plugin) beside what `base` says."""
        shape = self._varied.get((base.id, traits))
        if shape is None:
            shape = msgspec.structs.replace(base, id=len(self.all), traits=dict(traits))
            self._varied[base.id, traits] = shape
            self.all.append(shape)
        return shape

    def _intern(self, spec: PodSpec) -> Shape:
        requests = {name: amount for name, amount in _pod_amounts(spec, "requests").items() if amount}
        shape = Shape(
            id=len(self.all),
            requests={**requests, PODS: 1},
            best_effort=not requests,
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            host_ports=_host_ports(spec),
            limits=_pod_amounts(spec, "limits"),
            nonzero_requests={
                name: amount for name, amount in _pod_amounts(spec, "requests", _NONZERO).items() if name in _NONZERO
            },
        )
        content = self._encode(msgspec.structs.replace(shape, id=0))
        known = self._by_content.get(content)
        if known is not None:
            return known
        self._by_content[content] = shape
        self.all.append(shape)
        return shape


def _container_facts(container: Container) -> tuple[object, ...]:
    resources = container.resources
    return resources.requests, resources.limits, container.ports, container.restart_policy


def _host_ports(spec: PodSpec) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        sorted(
            {
                (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
                for container in (*spec.containers, *spec.init_containers)
                for port in container.ports
                if port.host_port
            }
        )
    )


def _container_amounts(container: Container, which: str, missing: Mapping[str, int]) -> Amounts:
    """One container's requests or limits; a limit without a request is requested, as the API server defaults it."""
    resources = container.resources
    listed = resources.limits if which == "limits" else {**resources.limits, **resources.requests}
    return {**missing, **amounts(listed)}


def _pod_amounts(spec: PodSpec, which: str, missing: Mapping[str, int] = _NOTHING) -> Amounts:
    """A pod's requests or limits; `missing` is what a container counts for where it says nothing."""
    running: Amounts = {}
    for container in spec.containers:
        add(running, _container_amounts(container, which, missing))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = _container_amounts(container, which, missing)
        if container.restart_policy == "Always":
            add(sidecars, own)
            peak = maximum(peak, sidecars)
        else:
            add(own, sidecars)
            peak = maximum(peak, own)
    add(running, sidecars)
    result = maximum(running, peak)
    if spec.resources is not None:
        whole = spec.resources.limits if which == "limits" else {**spec.resources.limits, **spec.resources.requests}
        result.update(amounts(whole))
    add(result, amounts(spec.overhead))
    return result
