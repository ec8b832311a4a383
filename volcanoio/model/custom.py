"""Kinds of custom resources of third-party controllers."""

from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind


class CustomObject(ApiObject):
    """A custom object: `spec` and `status` are plain JSON."""

    spec: Manifest = {}
    status: Manifest = {}


def custom_kind(  # noqa: PLR0913 - the fields of a Kind, with defaults
    group: str,
    version: str,
    kind: str,
    plural: str = "",
    *,
    type: type[ApiObject] = CustomObject,  # noqa: A002 - the name of Kind's field
    namespaced: bool = True,
    status_subresource: bool = True,
) -> Kind:
    """Return the kind of a CustomResourceDefinition.

    `plural` defaults to the kind in lower case with an s; `type` is the Struct that objects are decoded into.
    """
    return Kind(group, version, kind, plural or f"{kind.lower()}s", type, namespaced, status_subresource)
