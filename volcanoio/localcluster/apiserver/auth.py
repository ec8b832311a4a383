"""Who is let in: Host and Origin against DNS rebinding, then a bearer token compared in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from volcanoio.localcluster.apiserver.errors import ApiError

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What anybody may read: these paths and those below them."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides by headers alone. An empty `token` lets every request in that passes the checks of Host and Origin.

    A web page on another site can make a browser send requests to a loopback port, and by DNS rebinding can do so under
    its own host name. Both show in Host or Origin, which scripts cannot forge.
    """

    token: str = ""
    hosts: frozenset[str] = LOOPBACK_NAMES

    def check(self, path: str, headers: Mapping[str, str]) -> ApiError | None:
        """None when the request may pass. Header names are lower case."""
        host = headers.get("host", "")
        if _host_name(f"//{host}") not in self.hosts:
            return ApiError(403, "Forbidden", f"Host {host!r} is not served here; use 127.0.0.1 or localhost")
        origin = headers.get("origin")
        if origin is not None and _host_name(origin) not in self.hosts:
            return ApiError(403, "Forbidden", f"requests from the web origin {origin!r} are refused")
        if not self.token or self._presents_token(headers) or _is_open(path):
            return None
        return ApiError(401, "Unauthorized", "Unauthorized: send the bearer token of the cluster's kubeconfig")

    def _presents_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode())


def _is_open(path: str) -> bool:
    return any(path == open_path or path.startswith(open_path + "/") for open_path in OPEN_PATHS)


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:  # brackets that close no IPv6 address
        return ""
