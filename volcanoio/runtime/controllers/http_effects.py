"""HTTP requests on behalf of controllers: webhooks of alerts (Notify) and endpoint checks (CheckEndpoint).

A webhook is posted again with back-off until it is accepted or its time is over. An endpoint is checked once for each
effect. Outcomes are published as events.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable
from typing import Protocol

import aiohttp
import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from volcanoio.framework.backoff import Backoff
from volcanoio.framework.effects import CheckEndpoint, Notify
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event, Notified
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock

WEBHOOK_TIMEOUT = 10.0
"""Timeout of one attempt, in seconds of the machine's clock."""
BACKOFF = Backoff(base=1.0, cap=300.0)
"""Delays between two attempts."""
ATTEMPTS = "volcanoio_policy_webhook_attempts_total"
_log = structlog.get_logger(__name__)
_GONE = 410


class AlertWebhooks:
    """Sender of Notify effects while `run` runs. `heard` is called with each outcome."""

    def __init__(self, heard: Callable[[Notified], None], *, clock: Clock, probe: Probe) -> None:
        self._heard = heard
        self._clock = clock
        self._probe = probe
        self._tasks: TaskGroup | None = None
        self._under_way: set[tuple[str, str, str]] = set()
        self.posting = 0
        """Requests without a response so far."""

    async def run(self) -> None:
        """Send notices until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def take(self, controller: str, key: str, effect: Notify, cause: int) -> None:
        """Start to deliver a notice, unless the same notice of the key is being delivered."""
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
        """Post until it is accepted; returns "" then, else the reason for giving up."""
        body = msgspec.json.encode(effect.body)
        for attempt in itertools.count(1):
            problem, final = await self._post(effect.url, body)
            self._probe.count(ATTEMPTS, result="failed" if problem else "delivered")
            wait = BACKOFF.delay(attempt)
            if not problem or final or self._clock.now() + wait > effect.until:
                return problem
            _log.warning("a webhook did not accept an alert; it is sent again", notice=effect.notice, problem=problem)
            await self._clock.sleep(wait)
        raise AssertionError

    async def _post(self, url: str, body: bytes) -> tuple[str, bool]:
        """Post once; returns the error ("" for none), and whether a retry cannot help."""
        self.posting += 1
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WEBHOOK_TIMEOUT)) as session,
                session.post(
                    url, data=body, headers={"Content-Type": "application/json"}, allow_redirects=False
                ) as answer,
            ):
                if 200 <= answer.status < 300:
                    return "", True
                return f"it answered {answer.status} {answer.reason or ''}".rstrip(), answer.status == _GONE
        except (aiohttp.InvalidURL, ValueError):
            return f'"{url}" is not an http(s) address; give one such as https://host/path', True
        except (TimeoutError, aiohttp.ClientError, OSError, ssl.SSLError) as error:
            return str(error) or type(error).__name__, False
        finally:
            self.posting -= 1


CONCURRENT_CHECKS = 32
"""Checks in progress at once, for all controllers."""
HTTP_OK = range(200, 400)
"""Success as for a kubelet's probes."""


class Endpoints(Protocol):
    """Way to reach endpoints: the network, or a simulation of it."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Return the HTTP status (200 for a connection), or 0 and the reason if there was no response; never raises."""
        ...


class NetworkEndpoints:
    """Endpoints on the real network."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Connect, or GET: redirects count as responses, certificates are not verified."""
        try:
            with anyio.fail_after(effect.timeout):
                return await (_get(effect) if effect.path else _connect(effect))
        except TimeoutError:
            return 0, f"no answer within {effect.timeout:g} s"
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return 0, str(error) or type(error).__name__


class EndpointChecks:
    """Runner of CheckEndpoint effects while `run` runs. `heard` takes outcomes; `endpoints` None is the network."""

    def __init__(self, heard: Callable[[Event], None], endpoints: Endpoints | None = None) -> None:
        self._heard = heard
        self._endpoints: Endpoints = endpoints or NetworkEndpoints()
        self._tasks: TaskGroup | None = None
        self._limit: anyio.CapacityLimiter | None = None
        self.asking = 0
        """Checks without a response so far."""

    async def run(self) -> None:
        """Run checks until cancelled."""
        self._limit = anyio.CapacityLimiter(CONCURRENT_CHECKS)
        async with anyio.create_task_group() as self._tasks:
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def take(self, controller: str, key: str, effect: CheckEndpoint, cause: int) -> None:
        """Start a check."""
        if self._tasks is not None:
            self._tasks.start_soon(self._carry_out, controller, key, effect, cause)

    async def _carry_out(self, controller: str, key: str, effect: CheckEndpoint, cause: int) -> None:
        assert self._limit is not None
        self.asking += 1
        try:
            async with self._limit:
                status, reason = await self._endpoints.check(effect)
        finally:
            self.asking -= 1
        if status in HTTP_OK:
            self._heard(EffectSucceeded(cause=cause, controller=controller, key=key, effect_id=effect.id))
        else:
            self._heard(
                EffectFailed(
                    cause=cause, controller=controller, key=key, effect_id=effect.id, code=status, message=reason
                )
            )


async def _get(effect: CheckEndpoint) -> tuple[int, str]:
    host = f"[{effect.host}]" if ":" in effect.host else effect.host
    url = f"http://{host}:{effect.port}/{effect.path.lstrip('/')}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=effect.headers, allow_redirects=False) as answer,
    ):
        return answer.status, answer.reason or ""


async def _connect(effect: CheckEndpoint) -> tuple[int, str]:
    stream = await anyio.connect_tcp(effect.host, effect.port)
    await stream.aclose()
    return 200, ""
