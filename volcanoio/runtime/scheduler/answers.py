"""Questions to the running scheduler over HTTP: why something waits, why pods were evicted, and a snapshot.

`/debug/why?target=NAME&namespace=NS` has an additional cycle opened and reads its session (`Scheduler.ask`);
`evicted=true` asks for evictions instead. `/debug/snapshot` is a state for `volcanoio simulate`: what the caches hold
between two cycles, encoded in parts between which the scheduler works. Answers are limited in size, number and rate.

Who may ask is decided by who can reach the address: a component serves it on its loopback interface alone, where
port-forwarding ends; web pages in a browser beside it are refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

import anyio
import msgspec
from aiohttp import web
from anyio.lowlevel import checkpoint

from volcanoio.engine.scheduling.cluster.memory import SchedulerMemory, remember
from volcanoio.engine.scheduling.diagnosis.answers import (
    LiveAnswer,
    UnknownTargetError,
    about_evictions,
    about_job,
    about_queue,
    about_unscheduled,
    find,
    parse_target,
)
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.backoff import TokenBucket
from volcanoio.kube.clock import Clock
from volcanoio.kube.informer import InformerSet
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.runtime.endpoints import Handler
from volcanoio.runtime.scheduler.cache_dump import Held, encoded
from volcanoio.runtime.scheduler.scheduler import NotDecidingError, Scheduler

WHY, SNAPSHOT = "/debug/why", "/debug/snapshot"
MAX_PER_SECOND, MAX_BURST = 5.0, 20.0
"""Questions that are answered, as each causes a cycle."""
SECONDS = 10.0
"""Longest time that a question waits for its cycle."""
SNAPSHOT_PAUSE = 2.0
"""Least seconds between the end of a snapshot and the next one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body of an answer; the body of a snapshot comes in parts, others are whole."""

    status: int
    body: bytes = b""
    parts: AsyncGenerator[bytes, None] | None = None


class Answers:
    """Answers requests about one scheduler. Requests must be authorised by the caller."""

    def __init__(self, scheduler: Scheduler, informers: InformerSet, clock: Clock) -> None:
        self._scheduler = scheduler
        self._informers = informers
        self._clock = clock
        self._questions = TokenBucket(MAX_BURST)
        self._next_snapshot = float("-inf")
        self._encoding = False

    async def respond(self, path: str, query: Mapping[str, str]) -> Reply:
        """Answer a GET request; errors are JSON with `error`."""
        if path == SNAPSHOT:
            return await self._snapshot()
        if path != WHY:
            return _error(404, f"there is no {path} here; ask for {WHY} or {SNAPSHOT}")
        if not (target := query.get("target", "")):
            return _error(400, "target is missing; write ?target=NAME&namespace=NAMESPACE")
        if not self._questions.take(anyio.current_time(), MAX_PER_SECOND):
            return _error(429, f"more than {MAX_PER_SECOND:.0f} questions per second; ask again later")
        evicted = query.get("evicted", "false") == "true"
        try:
            with anyio.fail_after(SECONDS):
                answer = await self._why(target, query.get("namespace", "default"), evicted=evicted)
        except UnknownTargetError as error:
            return _error(404, str(error))
        except NotDecidingError as error:
            return _error(503, str(error))
        except TimeoutError:
            return _error(504, f"no cycle ended within {SECONDS:.0f} s")
        return Reply(200, msgspec.json.encode(answer))

    async def _why(self, target: str, namespace: str, *, evicted: bool) -> LiveAnswer:
        kind, name = parse_target(target)
        state = self._scheduler.state
        if evicted:
            found = await self._scheduler.between_cycles(lambda: about_evictions(state, kind, name, namespace))
            return LiveAnswer(cycle=self._scheduler.cycles, at=self._clock.now(), evictions=found)
        answers: list[LiveAnswer] = []

        def read(session: CycleSession) -> Iterator[None]:
            answers.append((yield from self._read(session, kind, name, namespace)))

        await self._scheduler.ask(read)
        return answers[0]

    def _read(self, session: CycleSession, kind: str, name: str, namespace: str) -> Generator[None, None, LiveAnswer]:
        """Read the answer from the session of a cycle."""
        target = yield from find(session.state, self._pod, kind, name, namespace)
        cycle, at = session.cycle, session.now
        if target.queue:
            return LiveAnswer(cycle=cycle, at=at, queue=(yield from about_queue(session, target.queue)))
        if target.job is not None:
            return LiveAnswer(cycle=cycle, at=at, waiting=(yield from about_job(session, target.job)))
        return LiveAnswer(cycle=cycle, at=at, waiting=about_unscheduled(target, session.state.scheduler_names))

    def _pod(self, key: str) -> Pod | None:
        found = self._informers.informer(kinds.POD).objects.get(key)
        return found if isinstance(found, Pod) else None

    async def _snapshot(self) -> Reply:
        if self._encoding or anyio.current_time() < self._next_snapshot:
            return _error(429, "a snapshot is being taken, or was just now; ask again in some seconds")
        if not self._scheduler.state.is_ready:
            return _error(503, "not everything is listed yet; ask again when /readyz is ok")
        self._next_snapshot = anyio.current_time() + SNAPSHOT_PAUSE
        memory, held = await self._scheduler.between_cycles(self._hold)
        return Reply(200, parts=self._parts(memory, held))

    def _hold(self) -> tuple[SchedulerMemory, list[Held]]:
        """Return what a snapshot contains: the objects are immutable, so they may be encoded later."""
        scheduler = self._scheduler
        memory = remember(
            scheduler.state, now=self._clock.now(), cycle=scheduler.cycles, configuration=scheduler.configuration
        )
        return memory, [(informer.kind, tuple(informer.objects.values())) for informer in self._informers]

    async def _parts(self, memory: SchedulerMemory, held: list[Held]) -> AsyncGenerator[bytes, None]:
        """Yield the encoded snapshot; other tasks of the loop work between its parts."""
        self._encoding = True
        try:
            for part in encoded(held, memory):
                yield part
                await checkpoint()
        finally:
            self._encoding = False
            self._next_snapshot = anyio.current_time() + SNAPSHOT_PAUSE


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Return whether a host is the loopback interface."""
    return host.strip("[]") in _LOOPBACK


def handlers(respond: Callable[[str, Mapping[str, str]], Awaitable[Reply]]) -> dict[str, Handler]:
    """Return the handlers of the two paths.

    Requests that a web page sent, under its own name or by DNS rebinding under another one for this address, get a 403.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        host = request.url.host or ""
        if not is_loopback(host) or "Origin" in request.headers:
            return web.json_response({"error": "ask at 127.0.0.1, and not from a web page"}, status=403)
        reply = await respond(request.path, request.query)
        if reply.parts is None:
            return web.Response(status=reply.status, body=reply.body, content_type="application/json")
        response = web.StreamResponse(status=reply.status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async with aclosing(reply.parts) as parts:
            async for part in parts:
                await response.write(part)
        await response.write_eof()
        return response

    return {WHY: answer, SNAPSHOT: answer}


def _error(status: int, text: str) -> Reply:
    return Reply(status, msgspec.json.encode({"error": text}))
