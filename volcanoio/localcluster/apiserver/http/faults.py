"""Faults for tests, injected at a chosen request.

`Faults` is consulted only when one is installed. It also logs the requests, so that a test can check what never reached
the API.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse

Action: TypeAlias = Literal["status", "reset", "hang", "delay"]
When: TypeAlias = Literal["before", "after"]


class ConnectionDropped(Exception):  # noqa: N818 - named for what happened
    """The connection must be dropped without an answer."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One received request."""

    method: str
    path: str
    body: bytes


@dataclass(slots=True)
class Rule:
    """One fault: at the `nth` matching request (from 1.

    The result is 0 for every one), before or after it is carried out.

    `status` answers with the HTTP code `code`, `reset` drops the connection, `hang` never answers, `delay` waits
    `seconds`. `path` is a regular expression, searched in the path.
    """

    method: str
    path: str
    action: Action
    when: When = "before"
    nth: int = 0
    code: int = 500
    seconds: float = 0.0
    seen: int = field(default=0, init=False)

    def fires(self, request: ApiRequest) -> bool:
        """Count a request; returns whether the fault is injected at it."""
        if request.method != self.method or not re.search(self.path, request.path):
            return False
        self.seen += 1
        return self.nth in {0, self.seen}


_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class Faults:
    """The installed rules and the log of requests."""

    def __init__(self, *rules: Rule) -> None:
        self.rules: list[Rule] = list(rules)
        self.requests: list[Recorded] = []

    def add(self, rule: Rule) -> None:
        """Install one more rule."""
        self.rules.append(rule)

    def note(self, request: ApiRequest) -> Rule | None:
        """Log a request; returns the rule that applies to it."""
        self.requests.append(Recorded(request.method, request.path, request.body))
        firing = [rule for rule in self.rules if rule.fires(request)]
        return firing[0] if firing else None


async def carry_out(rule: Rule) -> ApiResponse | None:
    """Inject the fault; returns an answer to send instead, or None to continue.

    Raises ConnectionDropped.
    """
    match rule.action:
        case "delay":
            await asyncio.sleep(rule.seconds)
            return None
        case "hang":
            await asyncio.get_running_loop().create_future()
            return None
        case "reset":
            raise ConnectionDropped
        case "status":
            headers = {"Retry-After": "1"} if rule.code in {429, 503} else {}
            reason = _REASONS.get(rule.code, "InternalError")
            return ApiError(rule.code, reason, "an injected fault", headers=headers).response()
