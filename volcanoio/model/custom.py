"""Kinds of which volcanoio knows nothing but where they live: custom resources of controllers that people write."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind


class CustomObject(ApiObject):
    """An object as it stands: `spec` and `status` are plain JSON."""

    spec: Manifest = {}
    status: Manifest = {}


def custom_kind(
    group: str,
    version: str,
    kind: str,
    plural: str = "",
    *,
    type: type[ApiObject] = CustomObject,  # noqa: A002 - it is called so in Kind
    namespaced: bool = True,
    status_subresource: bool = True,
) -> Kind:
    """A kind of a CustomResourceDefinition. `plural` is the kind in lower case with an s unless given; `type` is the
    Struct that objects are read into, if it is to be narrower than all there is.
    """
    return Kind(group, version, kind, plural or f"{kind.lower()}s", type, namespaced, status_subresource)
