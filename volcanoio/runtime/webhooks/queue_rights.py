"""`QueueRights`: asks the API server who may use a restricted queue, and keeps the answers for seconds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec
import structlog

from volcanoio.engine.admission.queue_rights import RequiredRight
from volcanoio.engine.admission.request import User
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError, check
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import kinds

_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT_SECONDS = 5.0
"""Seconds for which an answer is used again; a new RoleBinding takes effect after this time at the latest."""
_KEPT = 4096
"""Most answers that are kept."""
_SECONDS = 5.0
"""Timeout of a request, within that of the review."""
_DENIED = "it has no such right"
_LOG = structlog.get_logger(__name__)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool = False
    reason: str = ""
    evaluation_error: str = ""


class _Answer(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class QueueRights:
    """Rights of users to queues. A question without an answer is a refusal, which says so."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()

    async def refusal(self, subjects: tuple[User, ...], right: RequiredRight) -> str:
        """Return why none of the subjects may use the queue, "" if one may."""
        try:
            for user in subjects:
                if await self._is_allowed(user, right):
                    return ""
        except (ApiError, TransportError, msgspec.DecodeError) as error:
            _LOG.warning("a right to a queue could not be checked", queue=right.queue, error=str(error))
            return f"the right could not be checked: {error}; try again"
        return _DENIED

    async def _is_allowed(self, user: User, right: RequiredRight) -> bool:
        resource = {"group": kinds.QUEUE.group, "resource": kinds.QUEUE.plural}
        attributes = {**resource, "verb": right.verb, "name": right.queue}
        spec: dict[str, Any] = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**{name: value for name, value in spec.items() if value}, "resourceAttributes": attributes},
        }
        question, now = msgspec.json.encode(review, order="sorted"), self._clock.monotonic()
        if (known := self._known.get(question)) is not None and now - known[0] < _KEPT_SECONDS:
            return known[1]
        response = check(await self._transport.request("POST", _PATH, body=question, timeout=_SECONDS))
        status = msgspec.json.decode(response.body, type=_Answer).status
        self._known[question] = now, status.allowed
        self._known.move_to_end(question)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return status.allowed
