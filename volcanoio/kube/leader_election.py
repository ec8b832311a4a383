"""Leader election by a Lease, and the fence that leadership puts around writes.

`Candidate` is the algorithm of client-go (`tools/leaderelection`): a record that another process holds expires when it
has not changed for its duration on *our* clock, so clocks that differ between machines do not matter, and every update
carries the resourceVersion that it was computed from. `LeaderElector` runs a Candidate on a thread of its own, so that
a busy event loop does not lose the lease; renewals end when that loop has not turned for half of the renew deadline.

A Binding takes no token of the lease, so writes are fenced by time. `Candidate.is_leading` is True until the renew
deadline less WRITE_BOUND has passed since the last successful renewal was *sent*. A write is sent only while it is
True, and client and server give up on it after WRITE_BOUND. Another process takes the lease after its whole duration,
which is longer than the renew deadline; by then no write of ours is under way. Where the end of the earlier holder's
lease was not observed (the Lease was deleted or overwritten), the fence of the next holder stays closed for a whole
duration.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

import anyio
import anyio.to_thread
import msgspec
import structlog

from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.clock import BootClock, Clock
from volcanoio.kube.errors import error_of
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.requests import Request
from volcanoio.kube.sender import WRITE_BOUND, FencedTransport
from volcanoio.kube.transport import Response, Transport, TransportError
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import LEASE

_FAILURES = "volcanoio_lease_failures_total"
_JITTER = 1.2
"""Factor by which client-go's candidates vary the retry period; its validation uses it, too."""
_LOG = structlog.get_logger(__name__)


class LeaseSettingsError(ValueError):
    """Settings of a lease with which no process could lead; the message contains field, rule and next step."""


def new_identity() -> str:
    """Return `<hostname>_<uuid>`, unique to this process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, kw_only=True)
class LeaseSettings:
    """Name and times (seconds) of a lease; the defaults are those of Volcano. Raises LeaseSettingsError.

    The holder writes `annotations` to the Lease and keeps the others that it has.
    """

    name: str
    namespace: str = "volcano-system"
    identity: str = field(default_factory=new_identity)
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the lease outlives the renew deadline, and the deadline a renewal and the longest write."""
        for flag, value in (("resource-name", self.name), ("resource-namespace", self.namespace)):
            if not value:
                msg = f"leader-elect-{flag} must not be empty; name the Lease that all replicas share"
                raise LeaseSettingsError(msg)
        if self.retry_period <= 0:
            msg = f"leader-elect-retry-period must be greater than 0, not {self.retry_period:g}s; the default is 2s"
            raise LeaseSettingsError(msg)
        if self.renew_deadline < (least := WRITE_BOUND + _JITTER * self.retry_period):
            msg = (
                f"leader-elect-renew-deadline must be at least {least:g}s, not {self.renew_deadline:g}s: the longest"
                f" write ({WRITE_BOUND:g}s) and {_JITTER} times leader-elect-retry-period; the default is 10s"
            )
            raise LeaseSettingsError(msg)
        if int(self.duration) <= self.renew_deadline:
            msg = (
                f"leader-elect-lease-duration must be greater than leader-elect-renew-deadline"
                f" ({self.renew_deadline:g}s) in whole seconds, not {self.duration:g}s; the default is 15s"
            )
            raise LeaseSettingsError(msg)


class Leadership(Protocol):
    """What a component needs of an elector."""

    def is_leading(self) -> bool:
        """Return whether a write may be sent now (a `LeaderFence`)."""
        ...

    async def acquired(self) -> None:
        """Return once `is_leading` is True for the first time."""
        ...

    def guard(self, transport: Transport) -> Transport:
        """Return the transport for everything that only the leader may write."""
        ...


class _Record(NamedTuple):
    """The spec of a Lease; any difference between two of them is a sign of life of the holder."""

    holder: str
    duration: float
    acquired: str
    renewed: str
    transitions: int

    @classmethod
    def of(cls, lease: Manifest) -> _Record:
        """Return the record in a Lease; fields of a wrong type count as missing."""
        spec = lease.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            str(spec.get("holderIdentity") or ""),
            float(duration) if isinstance(duration, int) else 0.0,
            str(spec.get("acquireTime") or ""),
            str(spec.get("renewTime") or ""),
            transitions if isinstance(transitions, int) else 0,
        )

    @property
    def is_free(self) -> bool:
        """Whether no process can still write: the lease was released properly, or never held."""
        return not self.holder and (self.duration <= 1 or not self.renewed)

    def spec(self) -> Manifest:
        """Return the spec of the Lease; without a holder the field is left out, as client-go does."""
        holder = {"holderIdentity": self.holder} if self.holder else {}
        return {
            **holder,
            "leaseDurationSeconds": int(self.duration),
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


class Stage(Enum):
    """What a candidate is; it never returns to an earlier stage."""

    STANDBY = "standby"
    LEADER = "leader"
    ENDED = "ended"


_NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateHost:
    """The process of a candidate.

    `is_alive` returns whether the process does its work; while it is False, the lease is neither taken nor renewed.
    `changed` is called after `stage` or `may_write` changed.
    """

    is_alive: Callable[[], bool] = lambda: True
    changed: Callable[[], None] = lambda: None
    probe: Probe = field(default_factory=NoProbe)


class Candidate:
    """One candidate for a lease. Its coroutines run on one event loop; any thread may call `is_leading` and `shut`."""

    def __init__(
        self, transport: Transport, settings: LeaseSettings, *, clock: Clock, host: CandidateHost | None = None
    ) -> None:
        host = host or CandidateHost()
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._is_alive = host.is_alive
        self._changed = host.changed
        self._probe = host.probe
        self._rng = random.Random(settings.identity)
        self._turn = asyncio.Lock()
        self._lease: Manifest | None = None
        """The Lease as last read or written; None if its version is not known."""
        self._record: _Record | None = None
        """The record as last read or written by us."""
        self._claim: _Record | None = None
        """What we wrote without receiving an answer."""
        self._foreign_until = _NEVER
        """Time until which another process may hold the lease or have a write under way."""
        self._last_error = ""
        """The error of the last request; "" after a success."""
        self._renewed = _NEVER
        """Time at which the last successful renewal was sent."""
        self._is_shut = False
        """Whether the fence is closed for good; any thread may set it."""
        self.stage = Stage.STANDBY
        self.may_write = False
        """Whether the fence was open once."""
        self.lost_because = ""
        """Why the lease was lost; "" if it was not."""

    @property
    def holder(self) -> str:
        """Identity of the holder as last observed; "" for none."""
        return self._record.holder if self._record is not None else ""

    def is_leading(self) -> bool:
        """Return whether a write may be sent now."""
        if self._is_shut or self.stage is not Stage.LEADER:
            return False
        end = self._renewed + self._settings.renew_deadline - WRITE_BOUND
        return self._foreign_until <= self._clock.monotonic() < end

    async def run(self) -> None:
        """Compete for the lease until it is lost, or the fence is shut."""
        while not self._is_shut:
            async with self._turn:
                succeeded = await self._take_turn()
            if not self._is_shut:
                await self._clock.idle(self._pause(succeeded=succeeded))

    def shut(self) -> None:
        """Close the fence for good and renew no more; may be called from any thread."""
        self._is_shut = True

    async def release(self) -> None:
        """Give up the lease, so that another process need not wait for its end. Call it when no write is under way."""
        self.shut()
        async with self._turn:
            held = self.stage is Stage.LEADER and not self._has_expired()
            self._end()
            for _ in range(2 if held else 0):
                if self._lease is None and not await self._read():
                    continue
                assert self._lease is not None
                record = _Record.of(self._lease)
                if record.holder != self._settings.identity:
                    return
                now = self._time()
                released = _Record("", 1.0, now, now, record.transitions)
                if await self._put(released) is not None:
                    return
                self._lease = None

    def _end(self, why: str = "") -> None:
        """Close the fence for good; with `why`, the lease is lost."""
        self._is_shut, self.stage, self.lost_because = True, Stage.ENDED, why
        if why:
            _LOG.error("lost the lease", lease=self._settings.name, identity=self._settings.identity, because=why)
        self._changed()

    async def _take_turn(self) -> bool:
        """Try once to take or renew the lease; returns whether we hold it."""
        if self.stage is Stage.LEADER and self._has_expired():
            self._end(f"it was not renewed for {self._settings.renew_deadline:g} s")
            return False
        held = False
        if self._is_alive():
            began = self._clock.monotonic()
            held = await self._acquire_or_renew()
            took = (self._clock.monotonic() - began) / self._clock.rate
            self._probe.observe("volcanoio_lease_request_seconds", took, lease=self._settings.name)
        if self.stage is Stage.LEADER and self._has_expired():
            self._end(f"it was not renewed for {self._settings.renew_deadline:g} s")
        if not self.may_write and self.is_leading():
            self.may_write = True
            self._changed()
        return held

    def _has_expired(self) -> bool:
        return self._clock.monotonic() >= self._renewed + self._settings.renew_deadline

    def _pause(self, *, succeeded: bool) -> float:
        """Return the seconds until the next attempt.

        A standby looks twice per retry period and at the moment at which the lease ends: then it takes the lease within
        its duration and one such pause after the last renewal. A leader retries a failed renewal four times as often.
        """
        now, period = self._clock.monotonic(), self._settings.retry_period
        if self.stage is Stage.STANDBY:
            pause = period / 2 * self._rng.uniform(1 / _JITTER, 1.0)
            left = self._foreign_until - now
            return min(pause, left) if left > 0 else pause
        due = self._renewed + period if succeeded else now + period / 4
        if not self.may_write and self._foreign_until > now:
            due = min(due, self._foreign_until)
        return max(0.0, min(due, self._renewed + self._settings.renew_deadline) - now)

    async def _acquire_or_renew(self) -> bool:
        if self.stage is Stage.LEADER and self._lease is not None and await self._write():
            return True  # the Lease has not changed since our last write
        if not await self._read():
            return False
        other = self.holder not in ("", self._settings.identity)
        if self.stage is Stage.LEADER and other:
            self._end(f"{self.holder} holds it")
        if self._is_shut or (other and self._clock.monotonic() < self._foreign_until):
            return False
        return await self._write()

    async def _read(self) -> bool:
        """Read the Lease; returns False if there was no usable answer."""
        response = await self._send(requests.get(LEASE, self._settings.namespace, self._settings.name))
        if response is not None and response.status == 404:
            self._observe_absence()
            return True
        lease = None if response is None else self._lease_in(response)
        if lease is None:
            return False
        self._lease = lease
        self._observe(_Record.of(lease))
        return True

    def _observe_absence(self) -> None:
        before, self._record, self._lease = self._record, None, None
        if before is not None and before.holder not in ("", self._settings.identity):
            self._foreign_until = self._clock.monotonic() + before.duration

    def _observe(self, record: _Record) -> None:
        before, self._record = self._record, record
        if record == before:
            return
        now, settings = self._clock.monotonic(), self._settings
        if record.holder not in ("", settings.identity):
            self._foreign_until = now + record.duration
        elif self.stage is Stage.LEADER or record == self._claim:
            return  # our own write, whose answer did not arrive
        elif record.is_free:
            self._foreign_until = now
        else:  # changed by hand: the last holder may have renewed it just before
            self._foreign_until = now + max(settings.duration, before.duration if before else 0.0)

    async def _write(self) -> bool:
        """Take or renew the Lease that was read or written last; returns whether we hold it."""
        now, known = self._time(), self._record
        if self.stage is Stage.LEADER and known is not None:
            acquired, transitions = known.acquired, known.transitions
        else:
            acquired, transitions = now, 0 if known is None else known.transitions + 1
        record = _Record(self._settings.identity, float(int(self._settings.duration)), acquired, now, transitions)
        sent = self._clock.monotonic()
        lease = await self._put(record)
        self._lease = lease
        if lease is None:
            return False
        self._record, self._renewed, self._last_error = _Record.of(lease), sent, ""
        if self.stage is Stage.STANDBY:
            self.stage = Stage.LEADER
            _LOG.info("took the lease", lease=self._settings.name, identity=self._settings.identity)
            self._changed()
        return self.stage is Stage.LEADER

    async def _put(self, record: _Record) -> Manifest | None:
        """Create or update the Lease; returns it as stored, None if that is not certain."""
        settings = self._settings
        self._claim = record
        known = self._lease or {"metadata": {"name": settings.name, "namespace": settings.namespace}}
        meta = known["metadata"]
        if settings.annotations:
            meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **settings.annotations}}
        manifest: Manifest = {**known, "metadata": meta, "spec": record.spec()}
        make = requests.create if self._lease is None else requests.update
        response = await self._send(make(LEASE, manifest))
        return None if response is None else self._lease_in(response)

    async def _send(self, request: Request) -> Response | None:
        """Send a request; returns None without an answer. A leader gives up when the renew deadline has passed."""
        limit = self._settings.renew_deadline / 2
        if self.stage is Stage.LEADER:
            limit = min(limit, self._renewed + self._settings.renew_deadline - self._clock.monotonic())
            if limit <= 0:
                return None
        try:
            return await request.send(self._transport, timeout=limit)
        except TransportError as error:
            self._failed(str(error))
            return None

    def _lease_in(self, response: Response) -> Manifest | None:
        if not response.ok:
            self._failed(str(error_of(response)))
            return None
        try:
            lease: Manifest = msgspec.json.decode(response.body, type=dict)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            self._failed(str(error))
            return None
        return lease

    def _failed(self, error: str) -> None:
        """Count a failed request; an error is logged once while it lasts."""
        self._probe.count(_FAILURES, lease=self._settings.name)
        if error != self._last_error:
            self._last_error = error
            _LOG.warning("lease request failed", lease=self._settings.name, error=error)

    def _time(self) -> str:
        """Return the time of day as a MicroTime; only people and other programs read it."""
        return datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


WrapTransport = Callable[[Transport, Probe, Clock], Transport]
_TICK = 0.05
"""Part of the renew deadline after which the event loop shows again that it turns."""


class LeaderElector:
    """A Candidate on a thread with its own event loop and connections. Call `run` once, on the component's loop.

    `clock` is used from both threads; `wrap` makes the transport of the requests for the Lease. The component sends its
    requests through `guard`. To stop, end the component's work, then call `release`.
    """

    def __init__(
        self,
        connection: Connection,
        settings: LeaseSettings,
        *,
        probe: Probe | None = None,
        clock: Clock | None = None,
        wrap: WrapTransport | None = None,
    ) -> None:
        self._settings = settings
        self._probe = probe or NoProbe()
        self._clock = clock or BootClock()
        on_thread = _LoopProbe(self._on_loop, self._probe)
        transport: Transport = HttpTransport(connection, connections=2)
        self._transport = transport if wrap is None else wrap(transport, on_thread, self._clock)
        self._ticked = self._clock.monotonic()
        self._guarded: list[FencedTransport] = []
        self._candidate = Candidate(
            self._transport,
            settings,
            clock=self._clock,
            host=CandidateHost(is_alive=self._is_alive, changed=self._changed, probe=on_thread),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._acquired, self._lost, self._finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def holder(self) -> str:
        """Identity of the holder as last observed; "" for none."""
        return self._candidate.holder

    @property
    def lost_because(self) -> str:
        """Why the lease was lost; "" if it was not."""
        return self._candidate.lost_because

    def is_leading(self) -> bool:
        """Return whether a write may be sent now (a `LeaderFence`); may be called from any thread."""
        return self._candidate.is_leading()

    async def acquired(self) -> None:
        """Return once `is_leading` is True for the first time."""
        await self._acquired.wait()

    async def lost(self) -> None:
        """Return when the lease was lost after it was held; it is not competed for again, so the process must end."""
        await self._lost.wait()

    def guard(self, transport: Transport) -> FencedTransport:
        """Return the transport for everything that only the leader may write; `release` waits for its writes."""
        guarded = FencedTransport(transport, self.is_leading, self._clock)
        self._guarded.append(guarded)
        return guarded

    async def run(self) -> None:
        """Compete for the lease until it is lost or released; cancelling closes the fence and keeps the lease."""
        self._probe.count(_FAILURES, 0.0, lease=self._settings.name)
        self._loop = asyncio.get_running_loop()
        self._thread_loop = loop = asyncio.new_event_loop()
        task = loop.create_task(self._compete())
        thread = threading.Thread(target=self._work, args=(loop, task), name="leader-election", daemon=True)
        thread.start()
        try:
            while not self._finished.is_set():
                self._ticked = self._clock.monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.renew_deadline * _TICK):
                        await self._finished.wait()
        finally:
            self._candidate.shut()
            with suppress(RuntimeError):  # the loop is closed: the thread has ended
                loop.call_soon_threadsafe(task.cancel)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join)
        if self._error is not None:
            raise self._error

    async def release(self) -> None:
        """Close the fence, wait for the guarded writes under way, and give up the lease; `run` returns then."""
        self._candidate.shut()
        for guarded in self._guarded:
            await guarded.quiet()
        if self._thread_loop is not None and not self._finished.is_set():
            releasing = asyncio.run_coroutine_threadsafe(self._candidate.release(), self._thread_loop)
            await asyncio.wrap_future(releasing)
            self._finished.set()

    def _is_alive(self) -> bool:
        """Return whether the component's event loop turned within half of the renew deadline."""
        return self._clock.monotonic() - self._ticked < self._settings.renew_deadline / 2

    async def _compete(self) -> None:
        """Run the candidate on the thread, and stay for its release."""
        try:
            await self._candidate.run()
            if not self._candidate.lost_because:
                await asyncio.Event().wait()
        finally:
            await self._transport.aclose()

    def _work(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        try:
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        except BaseException as error:  # raised by `run`: without renewals this process must not go on
            self._error = error
        finally:
            self._candidate.shut()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            self._on_loop(self._finished.set)

    def _on_loop(self, call: Callable[[], object]) -> None:
        """Call a function on the component's event loop."""
        assert self._loop is not None
        with suppress(RuntimeError):  # it is closed: the process ends
            self._loop.call_soon_threadsafe(call)

    def _changed(self) -> None:
        self._on_loop(self._report)

    def _report(self) -> None:
        candidate = self._candidate
        held = candidate.stage is Stage.LEADER
        self._probe.gauge("volcanoio_leader", float(held), lease=self._settings.name)
        if candidate.may_write:
            self._acquired.set()
        if candidate.lost_because:
            self._lost.set()


class _LoopProbe:
    """A probe for the thread: a PrometheusProbe records from one thread only."""

    def __init__(self, on_loop: Callable[[Callable[[], object]], None], probe: Probe) -> None:
        self._on_loop = on_loop
        self._probe = probe

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        self._on_loop(partial(self._probe.count, name, amount, **labels))

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._on_loop(partial(self._probe.gauge, name, value, **labels))

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Add a sample to a histogram."""
        self._on_loop(partial(self._probe.observe, name, value, times, **labels))

    def forget(self, name: str, **labels: str) -> None:
        """Drop the series with these labels."""
        self._on_loop(partial(self._probe.forget, name, **labels))
