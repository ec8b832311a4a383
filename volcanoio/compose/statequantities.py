"""Quantities in an object, checked when it is read: the scheduler computes with all of them later."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.model.base import ApiObject
from volcanoio.model.core import Container, Node, Pod, ResourceList, ResourceQuota, ResourceRequirements
from volcanoio.model.quantity import QuantityError, parse
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim


def check_quantities(obj: ApiObject) -> None:
    """Raises QuantityError that names the field of the first quantity that is none, or is below zero."""
    for field, amounts in _lists(obj):
        for name, text in amounts.items():
            try:
                negative = parse(str(text)) < 0
            except QuantityError as error:
                msg = f"{field}[{name}]: {error}"
                raise QuantityError(msg) from None
            if negative:
                msg = f"{field}[{name}]: {text} is below zero; write an amount of zero or more"
                raise QuantityError(msg)


def _lists(obj: ApiObject) -> Iterator[tuple[str, ResourceList]]:
    """The resource lists that scheduling reads of an object, with their fields."""
    match obj:
        case Pod(spec=spec):
            for index, container in enumerate(spec.containers):
                yield from _container("containers", index, container)
            for index, container in enumerate(spec.init_containers):
                yield from _container("initContainers", index, container)
            yield "spec.overhead", spec.overhead
            if spec.resources is not None:
                yield from _requirements("spec.resources", spec.resources)
        case Node(status=status):
            yield "status.allocatable", status.allocatable
            yield "status.capacity", status.capacity
        case PodGroup(spec=wanted):
            yield "spec.minResources", wanted.min_resources or {}
        case Queue(spec=shares):
            yield "spec.capability", shares.capability
            yield "spec.deserved", shares.deserved
            yield "spec.guarantee.resource", shares.guarantee.resource
        case ResourceQuota(spec=quota, status=counted):
            yield "spec.hard", quota.hard
            yield "status.hard", counted.hard
            yield "status.used", counted.used
        case PersistentVolumeClaim(spec=claim):
            yield "spec.resources.requests", claim.resources.requests
        case PersistentVolume(spec=volume):
            yield "spec.capacity", volume.capacity
        case CSIStorageCapacity(capacity=free, maximum_volume_size=largest):
            given = {"capacity": free, "maximumVolumeSize": largest}
            yield "CSIStorageCapacity", {name: text for name, text in given.items() if text is not None}
        case _:
            pass


def _container(which: str, index: int, container: Container) -> Iterator[tuple[str, ResourceList]]:
    return _requirements(f"spec.{which}[{index}].resources", container.resources)


def _requirements(field: str, resources: ResourceRequirements) -> Iterator[tuple[str, ResourceList]]:
    yield f"{field}.requests", resources.requests
    yield f"{field}.limits", resources.limits
