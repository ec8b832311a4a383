"""Who asks, and what was asked: the user of a request, and the request that is being carried out.

Admission needs both far below the request's entry (an AdmissionReview names the user and the options), as Go's handlers
carry them in a context.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import msgspec

from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.api import ApiRequest

ANONYMOUS_NAME: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


class User(msgspec.Struct, frozen=True):
    """An authenticated user (`authentication.k8s.io/v1 UserInfo`)."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def anonymous(self) -> bool:
        """Whether nobody has said who this is."""
        return self.username == ANONYMOUS_NAME

    def info(self) -> Manifest:
        """The user as reviews show it: empty fields are left out."""
        found: Manifest = {"username": self.username}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


OWNER: Final = User("volcanoio", (MASTERS, AUTHENTICATED))
"""Whoever started the server: the holder of its token, and its own components."""

ANONYMOUS: Final = User(ANONYMOUS_NAME, (UNAUTHENTICATED,))
"""Whoever presents nothing."""

REQUEST: Final[ContextVar[ApiRequest | None]] = ContextVar("request", default=None)
"""The write that is being carried out; None within the server's own controllers."""


def current_user() -> User:
    """Who asked for what is being done."""
    request = REQUEST.get()
    return OWNER if request is None else request.user
