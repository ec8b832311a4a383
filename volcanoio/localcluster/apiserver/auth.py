"""Who is let in, and as whom: Host and Origin against DNS rebinding first, then what proves an identity.

Whoever is authenticated may do everything (RBAC objects are stored, not enforced); who is not may read the server's
version and health alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from volcanoio.localcluster.apiserver.authn import impersonation
from volcanoio.localcluster.apiserver.authn.denials import forbidden
from volcanoio.localcluster.apiserver.caller import ANONYMOUS, AUTHENTICATED, OWNER, User
from volcanoio.localcluster.apiserver.errors import ApiError

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What anybody may read: these paths and those below them."""
_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Call:
    """What a request shows of who makes it. Header names are lower case; `fields` has those that occur twice.

    `certificate` is the verified client certificate as Python's ssl shows it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    fields: impersonation.Fields
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides by headers and certificate alone. An empty `token` makes everybody the owner.

    A web page on another site can make a browser send requests to a loopback port, and by DNS rebinding can do so under
    its own host name. Both show in Host or Origin, which scripts cannot forge. `account` finds the user of a service
    account's token.
    """

    token: str = ""
    hosts: frozenset[str] = LOOPBACK_NAMES
    account: Callable[[str], User | None] | None = None

    def admit(self, call: Call) -> User | ApiError:
        """The user, or why the request is refused."""
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
        if impersonation.wanted(headers) and not user.anonymous:
            found = impersonation.impersonated(headers, call.fields)
            if isinstance(found, ApiError):
                return found
            user = found
        if user.anonymous and not (call.method in _READS and _is_open(call.path)):
            return forbidden(user.username, call.method, call.path, call.query)
        return user

    def _user(self, call: Call) -> User | None:
        """Who makes the request; None when what it presents proves nothing."""
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
    """The user of a client certificate: its common name, with its organisations as groups; None without a name."""
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
