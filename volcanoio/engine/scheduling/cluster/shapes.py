"""Shapes: the fields of a pod's spec that filters and scores read, interned.

Requests follow Kubernetes (`k8s.io/component-helpers/resource`): the larger of the containers with their sidecars and
of the init containers' peaks, plus overhead; pod-level resources win. Volume claims are part of a shape by their
requirements on nodes, bound claims by the nodes that reach their volume (`volumes`). Device claims are part of it by
what they ask for (`device_claims`).
"""

from collections.abc import Collection, Mapping

import msgspec

from volcanoio.framework.scheduling.podterms import PodSelector, PodTerms
from volcanoio.framework.scheduling.views import DeviceClaim, Shape, VolumeClaim
from volcanoio.model.core import Affinity, Container, Pod, PodSpec, ResourceList, Toleration
from volcanoio.model.resources import CPU, MEMORY, PODS, pod_amounts

DEFAULT_CPU = 100
"""Milli-cores that a container without cpu request counts in scores (DefaultMilliCPURequest)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Bytes that a container without memory request counts in scores (DefaultMemoryRequest)."""

_NONZERO: Mapping[str, int] = {CPU: DEFAULT_CPU, MEMORY: DEFAULT_MEMORY}


class _SpecKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Fields of a spec that determine its shape: a key that is cheap to compute."""

    containers: tuple[tuple[object, ...], ...]
    init_containers: tuple[tuple[object, ...], ...]
    overhead: ResourceList
    resources: object
    selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]
    devices: bool


class Shapes:
    """Interned shapes of a process, by dense id."""

    def __init__(self) -> None:
        self.all: list[Shape] = []
        self._by_spec_key: dict[bytes, Shape] = {}
        self._by_content: dict[bytes, Shape] = {}
        self._by_traits: dict[int, dict[tuple[tuple[str, str], ...], Shape]] = {}
        self._transient: dict[tuple[int, PodTerms | None, frozenset[PodSelector]], tuple[Shape, int]] = {}
        """Shapes with terms or matching selectors, with their number of users."""
        self._last_transient_id = 0
        self._by_claims: dict[int, dict[tuple[tuple[VolumeClaim, ...], tuple[DeviceClaim, ...]], Shape]] = {}
        self._ignored: frozenset[str] = frozenset()
        """Resources that plugins account for themselves."""
        self._claimed: frozenset[str] = frozenset()
        """Those of them for which devices are claimed."""
        self._per_device: Mapping[str, str] = {}
        """Resources of each device, with the resource that is the number of devices."""
        self._encode = msgspec.msgpack.Encoder(order="sorted").encode

    def set_resource_rules(
        self, ignored: frozenset[str], claimed: frozenset[str], per_device: Mapping[str, str]
    ) -> None:
        """Leave resources out of the requests of shapes from now on, and multiply others; limits stay as they are.

        Pods that request resources in `claimed` have claims of devices.
        """
        self._ignored, self._claimed, self._per_device = ignored, claimed, per_device
        self._by_spec_key.clear()

    def of(self, pod: Pod) -> Shape:
        """Return the shape of a pod."""
        key = self._spec_key(pod.spec)
        if (shape := self._by_spec_key.get(key)) is None:
            shape = self._by_spec_key[key] = self._intern(pod.spec)
        return shape

    def existing(self, pod: Pod) -> Shape | None:
        """Return the shape of a pod if an earlier pod had the same spec."""
        return self._by_spec_key.get(self._spec_key(pod.spec))

    def _spec_key(self, spec: PodSpec) -> bytes:
        return self._encode(
            _SpecKey(
                tuple(_container_key(item) for item in spec.containers),
                tuple(_container_key(item) for item in spec.init_containers),
                spec.overhead,
                spec.resources,
                spec.node_selector,
                _node_affinity_only(spec.affinity),
                spec.tolerations,
                bool(spec.resource_claims),
            )
        )

    def with_traits(self, base: Shape, traits: tuple[tuple[str, str], ...]) -> Shape:
        """Return the shape `base` with traits (by plugin)."""
        interned = self._by_traits.setdefault(base.id, {})
        if (shape := interned.get(traits)) is None:
            if base.id < 0:
                base_id, number = self.with_traits(self.all[base.base_id], traits).id, self._next_transient_id()
            else:
                base_id = number = len(self.all)
            shape = interned[traits] = msgspec.structs.replace(base, id=number, base_id=base_id, traits=dict(traits))
            if number >= 0:
                self.all.append(shape)
        return shape

    def with_claims(self, base: Shape, claims: tuple[VolumeClaim, ...], devices: tuple[DeviceClaim, ...] = ()) -> Shape:
        """Return the shape `base` with claims of volumes and of devices."""
        interned = self._by_claims.setdefault(base.id, {})
        if (shape := interned.get((claims, devices))) is None:
            if base.id < 0:
                base_id = self.with_claims(self.all[base.base_id], claims, devices).id
                number = self._next_transient_id()
            else:
                base_id = number = len(self.all)
            shape = msgspec.structs.replace(base, id=number, base_id=base_id, claims=claims, device_claims=devices)
            interned[claims, devices] = shape
            if number >= 0:
                self.all.append(shape)
        return shape

    def with_terms(self, base: Shape, terms: PodTerms | None, matched: Collection[PodSelector]) -> Shape:
        """Return the shape `base` with terms about other pods and with selectors of other pods that match it.

        The number of such shapes grows with the jobs: their ids are negative, and each call must be paired with
        `release`.
        """
        if terms is None and not matched:
            return base
        key = (base.id, terms, frozenset(matched))
        shape, users = self._transient.get(key, (None, 0))
        if shape is None:
            shape = msgspec.structs.replace(base, id=self._next_transient_id(), terms=terms, matched=tuple(matched))
        self._transient[key] = shape, users + 1
        return shape

    def release(self, shape: Shape) -> None:
        """Remove one user of a shape; the last one removes the shape."""
        if shape.id < 0:
            key = (shape.base_id, shape.terms, frozenset(shape.matched))
            if users := self._transient[key][1] - 1:
                self._transient[key] = shape, users
            else:
                del self._transient[key]
                for variant in self._by_traits.pop(shape.id, {}).values():
                    self._by_claims.pop(variant.id, None)
                self._by_claims.pop(shape.id, None)

    def _next_transient_id(self) -> int:
        self._last_transient_id -= 1
        return self._last_transient_id

    def _intern(self, spec: PodSpec) -> Shape:
        asked = pod_amounts(spec, "requests", per_device=self._per_device)
        requests = {name: amount for name, amount in asked.items() if amount and name not in self._ignored}
        claims = any(asked.get(name) for name in self._claimed)
        shape = Shape(
            id=len(self.all),
            base_id=len(self.all),
            requests={**requests, PODS: 1},
            best_effort=not requests and not claims,
            node_selector=spec.node_selector,
            affinity=_node_affinity_only(spec.affinity),
            tolerations=spec.tolerations,
            host_ports=_host_ports(spec),
            has_device_claims=bool(spec.resource_claims) or claims,
            limits=pod_amounts(spec, "limits"),
            nonzero_requests={
                name: amount for name, amount in pod_amounts(spec, "requests", _NONZERO).items() if name in _NONZERO
            },
        )
        content = self._encode(msgspec.structs.replace(shape, id=0, base_id=0))
        if (interned := self._by_content.get(content)) is not None:
            return interned
        self._by_content[content] = shape
        self.all.append(shape)
        return shape


def may_request(shape: Shape, names: frozenset[str]) -> bool:
    """Return whether pods of a shape may request one of some resources, ignored or not."""
    return shape.has_device_claims or not (names.isdisjoint(shape.requests) and names.isdisjoint(shape.limits))


def _container_key(container: Container) -> tuple[object, ...]:
    resources = container.resources
    return resources.requests, resources.limits, container.ports, container.restart_policy


def _node_affinity_only(affinity: Affinity | None) -> Affinity | None:
    """Return the affinity without pod affinity, which `podindex` handles."""
    if affinity is None or affinity.node_affinity is None:
        return None
    return Affinity(node_affinity=affinity.node_affinity)


def _host_ports(spec: PodSpec) -> tuple[tuple[str, str, int], ...]:
    """Return address, protocol and number of ports of long-running containers (Kubernetes: GetHostPorts)."""
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
