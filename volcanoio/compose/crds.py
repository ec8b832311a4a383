"""Putting our definitions onto a server: those of config/crds, created or brought up to date."""

from __future__ import annotations

from functools import cache

import msgspec

from volcanoio.kube.errors import check
from volcanoio.kube.transport import ContentType, Transport
from volcanoio.model.base import Manifest
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definitions() -> list[Manifest]:
    """Our CustomResourceDefinitions, by name."""
    return [manifest for file in sorted(config_path("crds").glob("*.yaml")) for manifest in read_manifests(file)]


@cache
def _bodies() -> tuple[tuple[str, bytes, bytes], ...]:
    """Name, the whole and the patch of each, read once: a process may serve many clusters."""
    encode = msgspec.json.encode
    return tuple((one["metadata"]["name"], encode(one), encode({"spec": one["spec"]})) for one in definitions())


async def install_crds(transport: Transport) -> None:
    """Create our definitions; one that exists gets our spec. Raises ApiError."""
    for name, whole, patch in _bodies():
        response = await transport.request("POST", _PATH, body=whole)
        if response.status == 409:
            response = await transport.request(
                "PATCH", f"{_PATH}/{name}", body=patch, content_type=ContentType.MERGE_PATCH
            )
        check(response)
