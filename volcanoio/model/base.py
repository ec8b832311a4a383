"""The common parts of API objects: the Struct base, metadata and owner references."""

from typing import Any, TypeAlias, dataclass_transform

import msgspec

Manifest: TypeAlias = dict[str, Any]
"""A complete Kubernetes object as decoded JSON, with every field."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of all API types: immutable, camelCase in JSON, without defaults there, and free of reference cycles."""


class OwnerReference(Model):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    """Group and version of the object."""
    kind: str = ""
    """Kind of the object."""
    name: str = ""
    """Name of the object."""
    uid: str = ""
    """UID of the object."""
    controller: bool = False
    """Whether the object manages its dependents."""
    block_owner_deletion: bool = False
    """Whether foreground deletion of the object waits for this dependent."""


class ObjectMeta(Model):
    """The part of `metadata` that controllers read. Times are RFC 3339 strings."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key `namespace/name`, or the name alone for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        for ref in self.owner_references:  # called for every pod at every change; a generator takes three times as long
            if ref.controller:
                return ref
        return None

    @property
    def revision(self) -> int:
        """The resourceVersion as a number; 0 for an object that was never stored."""
        try:  # called for every object, many times
            return int(self.resource_version)
        except ValueError:
            return 0


class ApiObject(Model):
    """An object with metadata. Kind and apiVersion live in `volcanoio.model.kinds`, not in the object."""

    metadata: ObjectMeta = ObjectMeta()


class ObjectReference(Model):
    """A reference as used by Event.involvedObject and Binding.target."""

    api_version: str = ""
    """Group and version of the object."""
    kind: str = ""
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object."""
    name: str = ""
    """Name of the object."""
    uid: str = ""
    """UID of the object."""
    resource_version: str = ""
    """Version of the referenced object."""
    field_path: str = ""
    """Referenced part of the object."""


class StatusCondition(Model):
    """A condition in the common form (Kubernetes: meta/v1 Condition)."""

    type: str = ""
    """Type of the condition."""
    status: str = ""
    """True, False or Unknown."""
    observed_generation: int = 0
    """Generation of the object that the condition describes."""
    last_transition_time: str | None = None
    """When the status of the condition last changed."""
    reason: str = ""
    """Reason for the status, as one word in CamelCase."""
    message: str = ""
    """Reason for the status, as a sentence."""
