"""bus.volcano.sh/v1alpha1 Command: a request to act on a Job or Queue, as `vcctl` writes it."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, OwnerReference


class Command(ApiObject):
    """No spec: the action stands at the top."""

    action: str = ""
    target: OwnerReference = OwnerReference()
    reason: str = ""
    message: str = ""
