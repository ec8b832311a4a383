"""Webhooks: POSTs of JSON that are made again with back-off until they are heard."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import aiohttp
import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from volcanoio.framework.effects import Notify
from volcanoio.framework.events import Notified
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock

TIMEOUT = 10.0
"""Seconds (of the machine's) that one attempt may take."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds between two attempts: twice as many each time, up to the longest."""
ATTEMPTS = "volcanoio_policy_webhook_attempts_total"
_log = structlog.get_logger(__name__)
_GONE = 410


class Notices:
    """Carries out Notify effects while `run` runs. `heard` takes each outcome."""

    def __init__(self, heard: Callable[[Notified], None], *, clock: Clock, probe: Probe) -> None:
        self._heard = heard
        self._clock = clock
        self._probe = probe
        self._tasks: TaskGroup | None = None
        self._under_way: set[tuple[str, str, str]] = set()
        self.posting = 0
        """Requests that have no answer yet."""

    async def run(self) -> None:
        """Carry out, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def take(self, controller: str, key: str, effect: Notify, cause: int) -> None:
        """Begin, unless this notice of the key is under way."""
        name = (controller, key, effect.notice)
        if self._tasks is None or name in self._under_way:
            return
        self._under_way.add(name)
        self._tasks.start_soon(self._carry_out, name, effect, cause)

    async def _carry_out(self, name: tuple[str, str, str], effect: Notify, cause: int) -> None:
        try:
            problem = await self._deliver(effect)
        finally:
            self._under_way.discard(name)
        controller, key, notice = name
        self._heard(
            Notified(cause=cause, controller=controller, key=key, notice=notice, delivered=not problem, problem=problem)
        )

    async def _deliver(self, effect: Notify) -> str:
        """Post until it is heard; "" then, else why it is given up."""
        body, wait = msgspec.json.encode(effect.body), FIRST
        while True:
            problem, final = await self._post(effect.url, body)
            self._probe.count(ATTEMPTS, result="failed" if problem else "delivered")
            if not problem or final or self._clock.now() + wait > effect.until:
                return problem
            _log.warning("a webhook did not take an alert; it is told again", notice=effect.notice, problem=problem)
            await self._clock.sleep(wait)
            wait = min(2 * wait, LONGEST)

    async def _post(self, url: str, body: bytes) -> tuple[str, bool]:
        """One attempt: what was wrong ("" for nothing), and whether another can make no difference."""
        self.posting += 1
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session,
                session.post(
                    url, data=body, headers={"Content-Type": "application/json"}, allow_redirects=False
                ) as answer,
            ):
                if 200 <= answer.status < 300:
                    return "", True
                return f"it answered {answer.status} {answer.reason or ''}".rstrip(), answer.status == _GONE
        except (aiohttp.InvalidURL, ValueError):
            return f'"{url}" is no address that can be called; give one such as https://host/path', True
        except (TimeoutError, aiohttp.ClientError, OSError, ssl.SSLError) as error:
            return str(error) or type(error).__name__, False
        finally:
            self.posting -= 1
