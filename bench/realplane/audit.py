"""Writes counted by the API server itself: its audit log, which names user, verb and resource of every request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: {level}
"""
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _ObjectReference(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """One request of the audit log; `requestObject` only at level Request."""

    verb: str
    user: _User = _User()
    object_ref: _ObjectReference = _ObjectReference()
    response_status: _Status = _Status()
    request_received_timestamp: str = ""
    request_object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def resource(self) -> str:
        """Resource, with its subresource if there is one; a pod's binding is always pods/binding."""
        reference = self.object_ref
        return f"{reference.resource}/{reference.subresource}" if reference.subresource else reference.resource

    @property
    def is_write(self) -> bool:
        """Whether the request changes something."""
        return self.verb in WRITES and self.object_ref.resource != "selfsubjectaccessreviews"


_decode = msgspec.json.Decoder(Request).decode


class AuditLog:
    """The audit log of one API server under `directory`."""

    def __init__(self, directory: Path) -> None:
        self._policy = directory / "audit-policy.yaml"
        self._log = directory / "audit.log"

    def flags(self, *, bodies: bool = False) -> list[str]:
        """Write the policy and return the flags of kube-apiserver; `bodies` records request bodies too."""
        self._policy.parent.mkdir(parents=True, exist_ok=True)
        self._policy.write_text(POLICY.format(level="Request" if bodies else "Metadata"))
        return [
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-maxsize=4096",
        ]

    def position(self) -> int:
        """Return where the next request will be recorded."""
        return self._log.stat().st_size if self._log.exists() else 0

    def since(self, position: int) -> Iterator[Request]:
        """Yield the requests recorded from `position` on."""
        with self._log.open("rb") as log:
            log.seek(position)
            for line in log:
                if line.endswith(b"\n"):
                    yield _decode(line)


def writes_per_pod(requests: Iterable[Request], user: str, pods: int) -> dict[str, float]:
    """Return the writes of one user per pod by verb and resource, the most frequent first; refused ones separately."""
    counted: Counter[str] = Counter()
    for request in requests:
        if request.is_write and request.user.username == user:
            code = request.response_status.code
            refused = f" ({code})" if code >= 400 else ""
            counted[f"{request.verb} {request.resource}{refused}"] += 1
    return {what: round(count / pods, 4) for what, count in counted.most_common()}


def reads(requests: Iterable[Request], user: str) -> dict[str, int]:
    """Return the number of reads of one user by verb and resource."""
    counted = Counter(
        f"{request.verb} {request.resource}"
        for request in requests
        if request.user.username == user and not request.is_write
    )
    return dict(counted.most_common())
