"""The shape of a kind's particulars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from volcanoio.engine.admission.fielderrors import FieldError
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.model.base import Manifest


def _no_default(obj: Manifest, core: Core) -> None:
    del obj, core


def _keep_nothing(new: Manifest, old: Manifest) -> None:
    del new, old


def _no_errors(obj: Manifest) -> list[FieldError]:
    del obj
    return []


def _no_update_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    del new, old
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one kind is created and updated.

    `create` sets what a new object gets besides its defaults (a status, an assigned value); `default` fills absent
    fields on create and update; `keep` takes from the stored object what an update must not set. `validate` names
    broken rules, `validate_update` forbidden changes. `create` and `default` change the object in place and may raise
    ApiError. `warning` is shown to whoever creates one, as is what `warn` says of a new object (and the old one, on an
    update). `only_updates` kinds hold an update to the rules of `validate_update` alone.
    """

    create: Callable[[Manifest, Core], None] = _no_default
    default: Callable[[Manifest, Core], None] = _no_default
    keep: Callable[[Manifest, Manifest], None] = _keep_nothing
    validate: Callable[[Manifest], list[FieldError]] = _no_errors
    validate_update: Callable[[Manifest, Manifest], list[FieldError]] = _no_update_errors
    only_updates: bool = False
    warning: str = ""
    warn: Callable[[Manifest, Manifest | None], list[str]] | None = None


PLAIN = Strategy()
