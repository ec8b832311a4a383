"""`Impersonate-User` and its companions: a request made as somebody else (apiserver `filters/impersonation`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol
from urllib.parse import unquote

from volcanoio.localcluster.apiserver.authn.tokens import account_user
from volcanoio.localcluster.apiserver.caller import ANONYMOUS, ANONYMOUS_NAME, AUTHENTICATED, User
from volcanoio.localcluster.apiserver.errors import ApiError, bad_request

_USER, _GROUP, _UID, _EXTRA = ("impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-")
_ACCOUNT: Final = "system:serviceaccount:"


class Fields(Protocol):
    """Headers that may occur more than once."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """All values of a header."""
        ...


def wanted(headers: Mapping[str, str]) -> bool:
    """Whether it is asked for; extras alone ask for nothing. Names are lower case."""
    return _USER in headers or _GROUP in headers or _UID in headers


def impersonated(headers: Mapping[str, str], fields: Fields) -> User | ApiError:
    """The user that is asked for."""
    name = headers.get(_USER, "")
    groups = fields.getall(_GROUP, [])
    extra = {
        unquote(key.removeprefix(_EXTRA)): tuple(fields.getall(key, [])) for key in headers if key.startswith(_EXTRA)
    }
    uid = headers.get(_UID, "")
    if not name:
        shown = ",".join(f'"{one}"' for one in groups)
        return bad_request(f"requested groups [{shown}], uid {uid!r} without impersonating a user name")
    if name == ANONYMOUS_NAME:
        return ANONYMOUS
    if not groups and name.startswith(_ACCOUNT):
        namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
        found = account_user(namespace, account)
        return User(found.username, found.groups, uid, extra)
    return User(name, _with_authenticated(groups), uid, extra)


def _with_authenticated(groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*groups, AUTHENTICATED]))
