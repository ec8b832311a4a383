"""Extended resources backed by devices: what the containers of a pod request becomes a claim of the scheduler's.

A class backs the resource of its `extendedResourceName`, and one that is named after it. Pods that use it have no
claim in their spec: the scheduler makes one for all such resources of a pod, and the pod's
`status.extendedResourceClaimStatus` lists which request of it is for which container (Kubernetes: feature
DRAExtendedResource).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from volcanoio.model.base import Manifest
from volcanoio.model.core import Container, Pod, PodSpec
from volcanoio.model.dynamic_resources.objects import EXACT_COUNT, DeviceClass
from volcanoio.model.quantity import QuantityError, parse

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claims that the scheduler makes: "true"."""
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource that is named after a class."""
_MAX_POD_NAME, _SUFFIX_LENGTH = 36, 8


class ExtendedRequests(NamedTuple):
    """The requests of a claim for the extended resources of a pod, and the containers that each is for."""

    requests: tuple[Manifest, ...] = ()
    mappings: tuple[Manifest, ...] = ()


class _Request(NamedTuple):
    name: str
    amount: int


def backing_classes(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class that backs each resource; of several classes the newest, else the first by name."""
    result: dict[str, str] = {}
    by_age = sorted(classes, key=lambda one: one.metadata.name)
    for each in sorted(by_age, key=lambda one: one.metadata.creation_timestamp or "", reverse=True):
        name = each.metadata.name
        if each.spec.extended_resource_name:
            result.setdefault(each.spec.extended_resource_name, name)
        result[f"{CLASS_PREFIX}{name}"] = name
    return result


def claim_name(pod: Pod) -> str:
    """Return the name of the claim for the extended resources of a pod; it follows from the pod's name and uid."""
    suffix = sha256(pod.metadata.uid.encode()).hexdigest()[:_SUFFIX_LENGTH]
    return f"{pod.metadata.name[:_MAX_POD_NAME].rstrip('-.')}-extended-resources-{suffix}"


def extended_requests(spec: PodSpec, backing: Mapping[str, str]) -> ExtendedRequests:
    """Return what the containers of a pod request of the resources in `backing`, which has the class of each."""
    containers = (*spec.init_containers, *spec.containers)
    wanted = {name for container in containers for name in _amounts(container) if name in backing}
    requests: list[tuple[str, Manifest]] = []
    mappings: list[Manifest] = []
    for resource in sorted(wanted):
        own, used = _of_resource(containers, len(spec.init_containers), resource)
        for request in own:
            exactly = {
                "deviceClassName": backing[resource],
                "allocationMode": EXACT_COUNT,
                "count": request.amount,
            }
            requests.append((request.name, {"name": request.name, "exactly": exactly}))
        for container, name in used:
            mappings.append({"containerName": container.name, "resourceName": resource, "requestName": name})
    return ExtendedRequests(tuple(one for _, one in sorted(requests, key=lambda pair: pair[0])), tuple(mappings))


def _of_resource(
    containers: Sequence[Container], init_count: int, resource: str
) -> tuple[list[_Request], list[tuple[Container, str]]]:
    """Return the requests for a resource, and the name of a request for each container that uses it.

    Init containers that end use the devices of containers that start later; what they need beyond that is one request
    of the largest size for all of them.
    """
    lasting: dict[int, _Request] = {}
    brief: list[int] = []
    for at, container in enumerate(containers):
        if at < init_count and container.restart_policy != "Always":
            brief.append(at)
        elif amount := _amounts(container).get(resource, 0):
            lasting[at] = _Request(_request_name(container, at, resource), amount)
    used = [(containers[at], request.name) for at, request in lasting.items()]
    extra: _Request | None = None
    sharing: list[Container] = []
    for at in brief:
        missing = _amounts(containers[at]).get(resource, 0)
        for later, request in lasting.items():
            if later > at and missing > 0:
                used.append((containers[at], request.name))
                missing -= request.amount
        if missing > 0:
            sharing.append(containers[at])
            if extra is None or extra.amount < missing:
                extra = _Request(_request_name(containers[at], at, resource), missing)
    if extra is not None:
        used.extend((container, extra.name) for container in sharing)
    return [*([extra] if extra is not None else []), *lasting.values()], used


def _request_name(container: Container, at: int, resource: str) -> str:
    """Return the name of a request: the index of the container, and of the resource among those it requests."""
    names = sorted({**container.resources.limits, **container.resources.requests})
    return f"container-{at}-request-{names.index(resource)}"


def _amounts(container: Container) -> dict[str, int]:
    """Return the whole amounts that a container requests; a limit without a request is one."""
    found: dict[str, int] = {}
    for name, text in {**container.resources.limits, **container.resources.requests}.items():
        try:
            amount = parse(str(text))
        except QuantityError:
            continue
        if amount > 0 and amount.denominator == 1:
            found[name] = int(amount)
    return found
