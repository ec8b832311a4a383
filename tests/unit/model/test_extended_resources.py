"""Extended resources as requests of a claim: which devices containers get, and which ones they use together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from volcanoio.model.core import PodSpec
from volcanoio.model.dynamic_resources.extended_resources import backing_classes, extended_requests
from volcanoio.model.dynamic_resources.objects import DeviceClass

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str, *, sidecar: bool = False, **amounts: int) -> dict[str, Any]:
    """A container that requests GPUs and NICs beside CPU."""
    requests = {"cpu": "1", **{f"example.com/{resource}": str(amount) for resource, amount in amounts.items()}}
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": "Always"} if sidecar else {})}


@pytest.mark.parametrize(
    ("init", "regular", "requests", "mappings"),
    [
        ([], [container("a")], {}, []),
        ([], [container("a", gpu=2)], {"container-0-request-1": ("gpu", 2)}, ["a container-0-request-1"]),
        (
            [],
            [container("a", gpu=1, nic=1), container("b", gpu=2)],
            {
                "container-0-request-1": ("gpu", 1),
                "container-0-request-2": ("nic", 1),
                "container-1-request-1": ("gpu", 2),
            },
            ["a container-0-request-1", "b container-1-request-1", "a container-0-request-2"],
        ),
        # an init container uses the devices of the containers after it
        (
            [container("i", gpu=2)],
            [container("a", gpu=3)],
            {"container-1-request-1": ("gpu", 3)},
            ["a container-1-request-1", "i container-1-request-1"],
        ),
        # what init containers need beyond that is one request of the largest size
        (
            [container("i", gpu=2), container("j", gpu=4)],
            [container("a", gpu=1)],
            {"container-1-request-1": ("gpu", 3), "container-2-request-1": ("gpu", 1)},
            [
                "a container-2-request-1",
                *("i container-2-request-1", "j container-2-request-1"),
                *("i container-1-request-1", "j container-1-request-1"),
            ],
        ),
        # a sidecar that started before keeps its devices
        (
            [container("s", sidecar=True, gpu=1), container("i", gpu=1)],
            [],
            {"container-0-request-1": ("gpu", 1), "container-1-request-1": ("gpu", 1)},
            ["s container-0-request-1", "i container-1-request-1"],
        ),
    ],
)
def test_requests_of_containers(init: Any, regular: Any, requests: Any, mappings: Any) -> None:
    spec = msgspec.convert({"initContainers": init, "containers": regular}, PodSpec)
    found = extended_requests(spec, {GPU: "gpu", NIC: "nic"})
    named = {one["name"]: (one["exactly"]["deviceClassName"], one["exactly"]["count"]) for one in found.requests}
    assert named == requests
    assert list(named) == sorted(named)
    assert [f"{one['containerName']} {one['requestName']}" for one in found.mappings] == mappings


def device_class(name: str, created: int, resource: str = "") -> DeviceClass:
    """A class made in a year."""
    meta = {"name": name, "creationTimestamp": f"{created}-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": meta, "spec": {"extendedResourceName": resource}}, DeviceClass)


def test_of_several_classes_the_newest_backs_a_resource_and_then_the_first_by_name() -> None:
    classes = [device_class("z", 2026, GPU), device_class("a", 2025, GPU), device_class("y", 2026, GPU)]
    assert backing_classes(classes) == {
        GPU: "y",
        **{f"deviceclass.resource.kubernetes.io/{name}": name for name in "azy"},
    }
