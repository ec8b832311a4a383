"""Putting our definitions onto a server: those of config/crds, created or brought up to date."""

from __future__ import annotations

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


async def install_crds(transport: Transport) -> None:
    """Create our definitions; one that exists gets our spec. Raises ApiError."""
    for manifest in definitions():
        response = await transport.request("POST", _PATH, body=msgspec.json.encode(manifest))
        if response.status == 409:
            name = manifest["metadata"]["name"]
            body = msgspec.json.encode({"spec": manifest["spec"]})
            response = await transport.request(
                "PATCH", f"{_PATH}/{name}", body=body, content_type=ContentType.MERGE_PATCH
            )
        check(response)
