"""Checks of endpoints: whether something in a pod serves yet, asked once for each CheckEndpoint effect."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

import aiohttp
import anyio
from anyio.abc import TaskGroup

from volcanoio.framework.effects import CheckEndpoint
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event

AT_ONCE = 32
"""Checks under way at once, of all controllers."""
HTTP_OK = range(200, 400)
"""As the probes of a kubelet have it."""


class Endpoints(Protocol):
    """How endpoints are reached: a network, or a simulation of one."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """The HTTP status (200 for a connection), 0 and the reason when nobody answered. Raises nothing."""
        ...


class NetworkEndpoints:
    """Endpoints as the network has them."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Connect, or GET: redirects are answers, certificates are nobody's concern."""
        try:
            with anyio.fail_after(effect.timeout):
                return await (_get(effect) if effect.path else _connect(effect))
        except TimeoutError:
            return 0, f"no answer within {effect.timeout:g} s"
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return 0, str(error) or type(error).__name__


class EndpointChecks:
    """Carries out CheckEndpoint effects while `run` runs. `heard` takes outcomes, `endpoints` None is the network."""

    def __init__(self, heard: Callable[[Event], None], endpoints: Endpoints | None = None) -> None:
        self._heard = heard
        self._endpoints: Endpoints = endpoints or NetworkEndpoints()
        self._tasks: TaskGroup | None = None
        self._limit: anyio.CapacityLimiter | None = None
        self.asking = 0
        """Checks that have no answer yet."""

    async def run(self) -> None:
        """Carry out, until cancelled."""
        self._limit = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as self._tasks:
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def take(self, controller: str, key: str, effect: CheckEndpoint, cause: int) -> None:
        """Begin."""
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
