"""What is reviewed, against what, and what the answer looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind


class Operation(StrEnum):
    """The writes that are reviewed; writes to `/status` are not."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class ReviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One write. `resource` is `Kind.resource`; `object` is None for DELETE and `old` for CREATE."""

    operation: Operation
    resource: str
    name: str = ""
    namespace: str = ""
    object: Manifest | None = None
    old: Manifest | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `object` is the one to store, with defaults; `messages` say what is wrong, one line each."""

    allowed: bool
    object: Manifest | None = None
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class AdmissionLookup(Protocol):
    """Read access to what is stored: queues, namespaces."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """The object, or None."""
        ...

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """All objects of a kind."""
        ...


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be configured (Volcano: cmd/webhook-manager/app/options).

    `job_plugins` are factories of the plugins a Job may name, called with their arguments; None accepts any name.
    `strict` refuses what is else accepted with a warning. `schedulers` are all there are, () where that is not known.
    """

    schedulers: tuple[str, ...] = ()
    scheduler_name: str = names.SCHEDULER_NAME
    job_plugins: Mapping[str, Callable[[Sequence[str]], JobPlugin]] | None = None
    max_queue_depth: int = 5
    root_queue_protection: bool = True
    queue_allocated_pods_check: bool = False
    strict: bool = False
