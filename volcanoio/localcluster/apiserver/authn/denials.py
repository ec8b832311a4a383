"""What nobody in particular is told: the 403 of a request that presents no credentials.

Kubernetes: apiserver `endpoints/request/requestinfo.go` and `handlers/responsewriters/errors.go`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.model.base import Manifest

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


def forbidden(user: str, method: str, path: str, query: str) -> ApiError:
    """The refusal of a request by a user who may not make it."""
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
