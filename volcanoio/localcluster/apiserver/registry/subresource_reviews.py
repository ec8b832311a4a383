"""Webhook calls for subresources with kinds of their own: Binding, Eviction, Scale, TokenRequest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from volcanoio.localcluster.apiserver.admission.webhooks.attributes import Attributes, of_target
from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.options import dry_run
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


async def reviewed(core: Core, target: Target, request: ApiRequest) -> tuple[ApiRequest, tuple[str, ...]]:
    """Call the webhooks for a created subresource.

    Returns the request with the new body, and warnings.

    Raises ApiError.
    """
    if not core.webhooks.configured:
        return request, ()
    obj = bodies.read(request)
    if not isinstance(obj, dict) or not isinstance(obj.setdefault("metadata", {}), dict):
        return request, ()  # refused later, by the decoder
    write = of_target("CREATE", target, obj, None)
    kind = write.kind
    obj |= {"kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version}
    obj["metadata"].setdefault("namespace", target.namespace)
    result = await core.webhooks.review(replace(write, dry_run=dry_run(request)))
    if result.changed:
        headers = {**request.headers, "content-type": "application/json"}
        request = msgspec.structs.replace(request, body=encode(result.object), headers=headers)
    return request, result.warnings


async def reviewed_update(
    core: Core, target: Target, new: Manifest, old: Manifest, *, dry_run: bool
) -> tuple[Manifest, tuple[str, ...]]:
    """Call the webhooks for an updated subresource.

    Returns the object and warnings. Raises ApiError.
    """
    write: Attributes = replace(of_target("UPDATE", target, new, old), dry_run=dry_run)
    result = await core.webhooks.review(write)
    return result.object or new, result.warnings


_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


async def connecting(core: Core, target: Target, request: ApiRequest) -> None:
    """Call the webhooks for a connection to a pod (exec, attach, portforward); raises ApiError.

    Options that a webhook changed have no effect.
    """
    options: Manifest = {flag: True for flag in _FLAGS if request.flag(flag)}
    if container := request.first("container"):
        options["container"] = container
    if command := request.query.get("command"):
        options["command"] = list(command)
    if ports := request.query.get("ports"):
        options["ports"] = [int(port) for one in ports for port in one.split(",") if port.isdigit()]
    write = of_target("CONNECT", target, options, None)
    kind = write.kind
    options |= {"kind": kind.kind, "apiVersion": kind.version}
    await core.webhooks.review(write)
