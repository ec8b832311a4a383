"""The audit log of the API server: what each service account asked for, what was forbidden, which grants were used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.realcluster.deployed.api import Obj

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [token-admin, admin]
- level: Metadata
  userGroups: ["system:serviceaccounts:volcano-system"]
- level: Metadata
  users: [hollow-nodes]
- level: None
"""
IMPLICIT = frozenset({"update"})
"""Verbs that admission checks without a request of their own: `update` of finalizers, for owner references."""
_MAX_SIZE_MIB = 10_000
"""The log is not rotated: positions are those of one file."""


def flags(directory: Path) -> list[str]:
    """Return the flags of kube-apiserver for an audit log in a directory."""
    policy = directory / "audit-policy.yaml"
    policy.write_text(POLICY)
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory / 'audit.log'}",
        f"--audit-log-maxsize={_MAX_SIZE_MIB}",
        "--audit-log-mode=blocking",
    ]


class Call(NamedTuple):
    """One request in the log."""

    user: str
    verb: str
    group: str
    resource: str
    """With the subresource, as RBAC writes it: pods/status."""
    namespace: str
    name: str
    code: int
    path: str
    forbidden: bool
    """Whether RBAC forbade it; a namespace that terminates and a quota refuse with 403, too."""

    @classmethod
    def of(cls, event: Obj) -> Call:
        """Read one event."""
        target = event.get("objectRef") or {}
        resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
        return cls(
            event["user"]["username"],
            event["verb"],
            target.get("apiGroup", ""),
            resource,
            target.get("namespace", ""),
            target.get("name", ""),
            (event.get("responseStatus") or {}).get("code", 0),
            event.get("requestURI", ""),
            (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid",
        )


@dataclass
class AuditLog:
    """The log of a directory, read from a position on."""

    path: Path
    position: int = 0
    removals: list[tuple[int, int]] = field(default_factory=list)
    """Spans of the log in which an uninstallation took rights away from running processes."""

    def calls(self, position: int = 0) -> Iterator[Call]:
        """Yield the calls from a byte position on, without refusals in `removals` and an unfinished last line."""
        with self.path.open("rb") as file:
            file.seek(position)
            for line in file:
                begin, position = position, position + len(line)
                if not line.endswith(b"\n"):
                    return
                call = Call.of(json.loads(line))
                if not (call.forbidden and any(first <= begin < last for first, last in self.removals)):
                    yield call

    def size(self) -> int:
        """Return the position at the end of the log."""
        return self.path.stat().st_size if self.path.exists() else 0


class Grant(NamedTuple):
    """One verb on one resource that a role gives a user."""

    user: str
    role: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()
    namespace: str = ""

    def covers(self, call: Call) -> bool:
        """Whether a call needed this grant."""
        return (
            self.user == call.user
            and self.verb in {call.verb, "*"}
            and self.group in {call.group, "*"}
            and self.resource in {call.resource, "*"}
            and (not self.names or call.name in self.names)
            and self.namespace in {"", call.namespace}
        )


def grants(roles: Iterable[Obj], bindings: Iterable[Obj], users: Iterable[str]) -> list[Grant]:
    """Return every grant that the roles and bindings of a cluster give these users."""
    wanted = set(users)
    by_name = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in roles}
    found: list[Grant] = []
    for binding in bindings:
        namespace, reference = binding["metadata"].get("namespace", ""), binding["roleRef"]
        role = by_name.get((reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"]))
        for subject in binding.get("subjects") or ():
            user = subject["name"]
            if subject["kind"] == "ServiceAccount":
                user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
            if user in wanted and role is not None:
                found += _rules(user, role, namespace)
    return found


def _rules(user: str, role: Obj, namespace: str) -> Iterator[Grant]:
    label = f"{role['kind']}/{role['metadata']['name']}"
    for rule in role.get("rules") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule["verbs"]:
                    yield Grant(user, label, group, resource, verb, tuple(rule.get("resourceNames") or ()), namespace)


def unused(granted: Iterable[Grant], calls: Iterable[Call]) -> list[Grant]:
    """Return the grants that no call needed; `update` of finalizers is needed by admission alone."""
    made = set(Counter(call._replace(code=0, path="") for call in calls))
    return [
        grant
        for grant in granted
        if not (grant.resource.endswith("/finalizers") and grant.verb in IMPLICIT)
        and not any(grant.covers(call) for call in made)
    ]
