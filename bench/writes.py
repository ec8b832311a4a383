"""Counting what is written: a listener at the API server's door, in place of faults, so that no product code counts."""

from __future__ import annotations

from collections import Counter

from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.faults import Faults, Rule

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class CountedRequests(Faults):
    """Injects nothing; `writes` counts requests by verb and resource, with the subresource where there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: Counter[str] = Counter()

    def note(self, request: ApiRequest) -> Rule | None:
        """Count a write; keeps no bodies."""
        verb = VERBS.get(request.method)
        if verb is not None:
            self.writes[f"{verb} {resource_of(request.path)}"] += 1
        return None

    def per(self, pods: int) -> dict[str, float]:
        """Writes per pod, the most frequent first."""
        return {what: round(count / pods, 4) for what, count in self.writes.most_common()}


def resource_of(path: str) -> str:
    """The resource of an API path, `pods/binding` for a subresource.

    The path is /api/V/... or /apis/G/V/..., then perhaps namespaces/NS, then RESOURCE[/NAME[/SUBRESOURCE]].
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2]) if len(parts) > 2 else "".join(parts[:1])
