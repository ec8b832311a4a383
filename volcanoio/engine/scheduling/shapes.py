"""Shapes: the scheduling-relevant part of a pod's spec, interned.

Requests follow Kubernetes (`k8s.io/component-helpers/resource`): the larger of the containers with their sidecars and
of the init containers' peaks, plus overhead; pod-level resources win. Volume claims enter by what they ask of nodes, a
bound one by the nodes that reach its volume (`volumes`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from volcanoio.framework.scheduling.podterms import PodSelector, PodTerms
from volcanoio.framework.scheduling.views import Shape
from volcanoio.framework.scheduling.volumes import VolumeClaim
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
    devices: bool


class Shapes:
    """The interned shapes of a process, by dense id."""

    def __init__(self) -> None:
        self.all: list[Shape] = []
        self._by_facts: dict[bytes, Shape] = {}
        self._by_content: dict[bytes, Shape] = {}
        self._varied: dict[int, dict[tuple[tuple[str, str], ...], Shape]] = {}
        self._passing: dict[tuple[int, PodTerms | None, frozenset[PodSelector]], tuple[Shape, int]] = {}
        """Shapes with terms or matched, and how many there are that use them."""
        self._passed = 0
        self._claiming: dict[int, dict[tuple[VolumeClaim, ...], Shape]] = {}
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
                _to_nodes(spec.affinity),
                spec.tolerations,
                bool(spec.resource_claims),
            )
        )
        shape = self._by_facts.get(facts)
        if shape is None:
            shape = self._by_facts[facts] = self._intern(spec)
        return shape

    def varied(self, base: Shape, traits: tuple[tuple[str, str], ...]) -> Shape:
        """The shape of tasks that have traits (by plugin) beside what `base` says."""
        known = self._varied.setdefault(base.id, {})
        shape = known.get(traits)
        if shape is None:
            if base.id < 0:
                like, number = self.varied(self.all[base.like], traits).id, self._next()
            else:
                like = number = len(self.all)
            shape = known[traits] = msgspec.structs.replace(base, id=number, like=like, traits=dict(traits))
            if number >= 0:
                self.all.append(shape)
        return shape

    def claiming(self, base: Shape, claims: tuple[VolumeClaim, ...]) -> Shape:
        """The shape of tasks that ask for volumes beside what `base` says."""
        known = self._claiming.setdefault(base.id, {})
        shape = known.get(claims)
        if shape is None:
            if base.id < 0:
                like, number = self.claiming(self.all[base.like], claims).id, self._next()
            else:
                like = number = len(self.all)
            shape = known[claims] = msgspec.structs.replace(base, id=number, like=like, claims=claims)
            if number >= 0:
                self.all.append(shape)
        return shape

    def concerned(self, base: Shape, terms: PodTerms | None, matched: Collection[PodSelector]) -> Shape:
        """The shape of pods that ask something of others, or others of them; to be handed back with `part`.

        There are as many as there are jobs that do so: their ids are negative, and they are forgotten with their pods.
        """
        if terms is None and not matched:
            return base
        key = (base.id, terms, frozenset(matched))
        shape, users = self._passing.get(key, (None, 0))
        if shape is None:
            shape = msgspec.structs.replace(base, id=self._next(), terms=terms, matched=tuple(matched))
        self._passing[key] = shape, users + 1
        return shape

    def part(self, shape: Shape) -> None:
        """A user of a shape is gone."""
        if shape.id < 0:
            key = (shape.like, shape.terms, frozenset(shape.matched))
            users = self._passing[key][1] - 1
            if users:
                self._passing[key] = shape, users
            else:
                del self._passing[key]
                for varied in self._varied.pop(shape.id, {}).values():
                    self._claiming.pop(varied.id, None)
                self._claiming.pop(shape.id, None)

    def _next(self) -> int:
        self._passed -= 1
        return self._passed

    def _intern(self, spec: PodSpec) -> Shape:
        requests = {name: amount for name, amount in _pod_amounts(spec, "requests").items() if amount}
        shape = Shape(
            id=len(self.all),
            like=len(self.all),
            requests={**requests, PODS: 1},
            best_effort=not requests,
            node_selector=spec.node_selector,
            affinity=_to_nodes(spec.affinity),
            tolerations=spec.tolerations,
            host_ports=_host_ports(spec),
            devices=bool(spec.resource_claims),
            limits=_pod_amounts(spec, "limits"),
            nonzero_requests={
                name: amount for name, amount in _pod_amounts(spec, "requests", _NONZERO).items() if name in _NONZERO
            },
        )
        content = self._encode(msgspec.structs.replace(shape, id=0, like=0))
        known = self._by_content.get(content)
        if known is not None:
            return known
        self._by_content[content] = shape
        self.all.append(shape)
        return shape


def _container_facts(container: Container) -> tuple[object, ...]:
    resources = container.resources
    return resources.requests, resources.limits, container.ports, container.restart_policy


def _to_nodes(affinity: Affinity | None) -> Affinity | None:
    """Affinity without that to pods, which `podindex` reads."""
    if affinity is None or affinity.node_affinity is None:
        return None
    return Affinity(node_affinity=affinity.node_affinity)


def _host_ports(spec: PodSpec) -> tuple[tuple[str, str, int], ...]:
    """Address, protocol and number of the ports of containers that run all the time (Kubernetes: GetHostPorts)."""
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        sorted(
            {
                (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
                for container in (*spec.containers, *sidecars)
                for port in container.ports
                if port.host_port > 0
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
