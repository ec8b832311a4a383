"""Reviews of what is written to subresources with kinds of their own: Bindings, Evictions, Scales, TokenRequests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from volcanoio.localcluster.apiserver import bodies
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.objects import encode
from volcanoio.localcluster.apiserver.options import dry_run
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.webhooks.attributes import Attributes, of_target
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


async def reviewed(core: Core, target: Target, request: ApiRequest) -> tuple[ApiRequest, tuple[str, ...]]:
    """The creation of a subresource after the webhooks, with its body as they left it, and what they told.

    Raises ApiError. Only called where a webhook is configured.
    """
    obj = bodies.read(request)
    if not isinstance(obj, dict) or not isinstance(obj.setdefault("metadata", {}), dict):
        return request, ()  # refused by whoever reads it next
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
    """The update of a subresource after the webhooks, and what they told; raises ApiError."""
    write: Attributes = replace(of_target("UPDATE", target, new, old), dry_run=dry_run)
    result = await core.webhooks.review(write)
    return result.object or new, result.warnings


_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


async def connecting(core: Core, target: Target, request: ApiRequest) -> None:
    """Ask the webhooks whether somebody may connect to a pod (exec, attach, portforward); raises ApiError.

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
