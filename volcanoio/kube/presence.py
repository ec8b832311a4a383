"""Whether an object is still there after a delete was refused because of its uid."""

from __future__ import annotations

import msgspec

from volcanoio.kube import requests
from volcanoio.kube.errors import NotFound
from volcanoio.kube.sending import Sender
from volcanoio.model.kinds import Kind


async def is_gone(sender: Sender, kind: Kind, namespace: str, name: str, uid: str) -> bool:
    """Whether the name now belongs to nobody or to another uid; False also where there is no answer."""
    found = await sender.send(requests.get(kind, namespace, name))
    if found.response is None:
        return isinstance(found.error, NotFound)
    return msgspec.json.decode(found.response.body, type=_Object).metadata.uid != uid


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
