"""`Operator`: the short way to write a controller that makes objects for objects of a kind.

`operator` holds the class, `parts` what its plan sees, `objects` what its plan says: owner references, "apply if it
differs", statuses and conditions.
"""

from __future__ import annotations

from volcanoio.framework.operators.objects import (
    applied,
    condition,
    deleted,
    event,
    status,
)
from volcanoio.framework.operators.operator import Operator
from volcanoio.framework.operators.parts import Parts
from volcanoio.model.references import object_reference, owner_reference

__all__ = [
    "Operator",
    "Parts",
    "applied",
    "condition",
    "deleted",
    "event",
    "object_reference",
    "owner_reference",
    "status",
]
