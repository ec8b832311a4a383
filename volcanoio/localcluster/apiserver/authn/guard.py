"""Authentication of a request: Host and Origin against DNS rebinding, credentials, impersonation.

Authenticated users may do everything (RBAC objects are stored, not enforced); an anonymous request may only read the
server's version and health, and else gets a 403 (apiserver `endpoints/request/requestinfo.go`,
`handlers/responsewriters/errors.go`). `Impersonate-User` and related headers: apiserver `filters/impersonation`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, bad_request
from volcanoio.localcluster.apiserver.apimachinery.request import ANONYMOUS, ANONYMOUS_NAME, AUTHENTICATED, OWNER, User
from volcanoio.localcluster.apiserver.authn.tokens import account_user
from volcanoio.model.base import Manifest

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


def forbidden(user: str, method: str, path: str, query: str) -> ApiError:
    """Return a 403 for a user who may not make the request."""
    parts = path.strip("/").split("/")
    group = ""
    if parts[0] == "api" and len(parts) > 2:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        verb = _VERBS.get(method, method.lower())
        return _refusal(f'forbidden: User "{user}" cannot {verb} path "{path}"', {})
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    shown = f"{resource}.{group}" if group else resource
    subject = f'{shown} "{name}"' if name else shown
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    full = f"{resource}/{subresource}" if subresource else resource
    verb = _verb(method, name, query)
    text = f'{subject} is forbidden: User "{user}" cannot {verb} resource "{full}" in API group "{group}" {where}'
    details: Manifest = {"name": name} if name else {}
    if group:
        details["group"] = group
    return _refusal(text, details | {"kind": resource})


def _verb(method: str, name: str, query: str) -> str:
    verb = _VERBS.get(method, method.lower())
    if verb == "get":
        watch = parse_qs(query, keep_blank_values=True).get("watch", ["false"])[0]
        if watch != "0" and watch.lower() != "false":
            return "watch"
        return verb if name else "list"
    return "deletecollection" if verb == "delete" and not name else verb


def _refusal(text: str, details: Manifest) -> ApiError:
    return ApiError(403, "Forbidden", text, details)


_USER, _GROUP, _UID, _EXTRA = ("impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-")
_ACCOUNT: Final = "system:serviceaccount:"


class Fields(Protocol):
    """Headers that may occur more than once."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """Return all values of a header."""
        ...


def wanted(headers: Mapping[str, str]) -> bool:
    """Return whether a request requires impersonation.

    Extras alone do not. Names are lower case.
    """
    return _USER in headers or _GROUP in headers or _UID in headers


def impersonated(headers: Mapping[str, str], fields: Fields) -> User | ApiError:
    """Return the impersonated user."""
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


LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""Paths that anonymous users may read, with all paths below them."""
_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a request that authentication reads. Header names are lower case.

    `fields` has the headers that occur twice. `certificate` is the verified client certificate in the form of Python's
    ssl.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    fields: Fields
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """Authenticator by headers and certificate. An empty `token` makes every client the owner.

    A web page on another site can make a browser send requests to a loopback port, and by DNS rebinding can do so
    under
    its own host name. Both show in Host or Origin, which scripts cannot forge. `account` finds the user of a service
    account's token.
    """

    token: str = ""
    hosts: frozenset[str] = LOOPBACK_NAMES
    account: Callable[[str], User | None] | None = None

    def admit(self, call: Call) -> User | ApiError:
        """Return the authenticated user, or the refusal."""
        headers = call.headers
        host = headers.get("host", "")
        if _host_name(f"//{host}") not in self.hosts:
            return ApiError(403, "Forbidden", f"Host {host!r} is not served here; use 127.0.0.1 or localhost")
        origin = headers.get("origin")
        if origin is not None and _host_name(origin) not in self.hosts:
            return ApiError(403, "Forbidden", f"requests from the web origin {origin!r} are refused")
        user = self._user(call)
        if user is None:
            return ApiError(401, "Unauthorized", "Unauthorized")
        if wanted(headers) and not user.anonymous:
            found = impersonated(headers, call.fields)
            if isinstance(found, ApiError):
                return found
            user = found
        if user.anonymous and not (call.method in _READS and _is_open(call.path)):
            return forbidden(user.username, call.method, call.path, call.query)
        return user

    def _user(self, call: Call) -> User | None:
        """Return the user of the credentials; None for invalid credentials."""
        if not self.token:
            return OWNER
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = token.strip()
            if hmac.compare_digest(token.encode(errors="surrogateescape"), self.token.encode()):
                return OWNER
            return self.account(token) if self.account is not None else None
        return certificate_user(call.certificate) if call.certificate else ANONYMOUS


def certificate_user(certificate: Mapping[str, Any]) -> User | None:
    """Return the user of a client certificate: common name and organisations.

    None without a name.
    """
    names: dict[str, list[str]] = {}
    for part in certificate.get("subject") or ():
        for key, value in part:
            names.setdefault(key, []).append(value)
    common = names.get("commonName")
    if not common:
        return None
    return User(common[0], (*names.get("organizationName", ()), AUTHENTICATED))


def _is_open(path: str) -> bool:
    return any(path == open_path or path.startswith(open_path + "/") for open_path in OPEN_PATHS)


@lru_cache(maxsize=256)
def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:  # brackets that close no IPv6 address
        return ""
