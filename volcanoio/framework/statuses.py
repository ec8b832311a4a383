"""Patches of status subresources, and the messages of conditions in them."""

from collections.abc import Callable

import msgspec

from volcanoio.framework.effects import Patch, PatchType, merge_diff
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind


def status_patch(kind: Kind, obj: ApiObject, before: msgspec.Struct, after: msgspec.Struct) -> Patch:
    """Return the patch from status `before` to `after`; refused with 409 if the object has changed."""
    change = merge_diff(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return Patch.of(kind.resource, obj, {"status": change}, at_version=True, subresource="status")


def pod_status_patch(pod: Pod, status: Manifest, *, at_version: bool = False) -> Patch:
    """Return a strategic merge patch of the status of a pod, which merges conditions by type.

    It names the uid: a later pod of the same name is not changed; with `at_version` no later version of the pod is.
    """
    options = {"subresource": "status", "type": PatchType.STRATEGIC}
    return Patch.of(kinds.POD.resource, pod, {"status": status}, at_version=at_version, **options)


def with_details(words: str, details: Callable[[], str] | None) -> str:
    """Append the amounts that explain a message, in parentheses."""
    text = details() if details is not None else ""
    return f"{words} ({text})" if text else words


def without_details(message: str) -> str:
    """Return a message without its details: the part that is the same while amounts change."""
    return message.partition(" (")[0]
