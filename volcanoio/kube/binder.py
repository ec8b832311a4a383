"""`Binder`: sends the binds of committed gangs and single pods, and determines the outcome of each.

A gang's binds are sent together, in the order of submission; those that need the same lock are sent one after another,
each once the lock of the one before was released. The number in flight adapts to 429 responses: additive
increase, multiplicative decrease; a bind that got one is sent again. There are three outcomes: BindDone; BindRefused, a
final error; and BindUnknown, if no definite response was received. An unknown outcome is resolved by uncached GETs of
the pod: bound to our node is done, bound to another one or gone is refused, and an unbound pod is bound again. A 409 is
resolved by one such GET. Binds have the uid as precondition. Each gets a final outcome while the process runs; binds
are refused unsent when their PodGroup has changed, a PreBind step failed, the process ends or the fence is closed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any

import msgspec

from volcanoio.framework.events import Event
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest
from volcanoio.framework.scheduling_events import BindDone, BindRefused, BindUnknown
from volcanoio.kube import requests
from volcanoio.kube.background_tasks import BackgroundTasks
from volcanoio.kube.clock import Clock, RetryBackoff
from volcanoio.kube.errors import error_of
from volcanoio.kube.informer import Publish
from volcanoio.kube.prebinder import AnyPodGroup, PreBinder, PreBindFailure
from volcanoio.kube.requests import Request
from volcanoio.kube.sender import FENCED, InFlightWindow, LeaderFence, Sender
from volcanoio.kube.transport import NotSent, Response, Transport, TransportError
from volcanoio.model.kinds import POD

PREBIND_FAILED = "PreBindFailed"
NODE_LEFT = "NodeLeftZone"
GROUP_CHANGED = "PodGroupChanged"
"""Reason of binds that were refused unsent, because the decision was made with an outdated PodGroup."""
ENDING = "Ending"
"""Reason of binds that were refused unsent, because this process ends."""


class _Batch:
    """A submitted batch.

    `open` is the number of its binds without final outcome; `unsent` are its binds until the first of them is sent,
    `queued` those that wait for a lock.
    """

    __slots__ = ("cause", "group", "open", "queued", "unsent")

    def __init__(self, batch: BindBatch, cause: int) -> None:
        self.group = batch.group
        self.cause = cause
        self.open = len(batch.binds)
        self.unsent: list[_Bind] = []
        self.queued: list[_Bind] = []


class _Bind:
    """One bind in progress."""

    __slots__ = ("backoff", "batch", "request", "sent_at")

    def __init__(self, batch: _Batch, request: BindRequest, rng: random.Random) -> None:
        self.batch = batch
        self.request = request
        self.backoff = RetryBackoff(rng)
        self.sent_at = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BinderOptions:
    """Options: `timeout` (seconds) of each bind, also sent to the server; `window` limits the binds in flight.

    `prebinder` carries out the steps that precede binds, and `prebound` receives the binds whose steps are done.
    `group_of` returns the PodGroup with which a batch was decided; it is compared with the stored one first. With
    `may_use`, a bind to a node for which it returns False is refused unsent, also one that is sent again. `seed` varies
    the back-off, `probe` receives the metrics.
    """

    window: InFlightWindow | None = None
    timeout: float = 5.0
    seed: int = 0
    probe: Probe = field(default_factory=NoProbe)
    prebinder: PreBinder | None = None
    may_use: Callable[[str], bool] | None = None
    group_of: Callable[[str], AnyPodGroup | None] = lambda _: None
    prebound: Callable[[Sequence[BindRequest]], None] = lambda _: None


class Binder:
    """Sender of binds while `fence()` is True. It is a context manager: leaving it cancels requests."""

    def __init__(
        self,
        transport: Transport,
        publish: Publish,
        *,
        clock: Clock,
        fence: LeaderFence | None = None,
        options: BinderOptions | None = None,
    ) -> None:
        options = options or BinderOptions()
        self._transport = transport
        self._prebinder = options.prebinder or PreBinder(
            Sender(transport, clock=clock, fence=fence, seed=options.seed), clock=clock
        )
        self._group_of = options.group_of
        self._publish = publish
        self._clock = clock
        self._fence = fence
        self._window = options.window or InFlightWindow()
        self._timeout = options.timeout
        self._may_use = options.may_use
        self._prebound = options.prebound
        self._rng = random.Random(f"{options.seed}/binder")
        self._probe = options.probe
        self._waiting: deque[_Bind] = deque()
        self._batches: dict[str, list[_Batch]] = {}
        self._outcomes: list[Event] = []
        self._pausing = False
        self._closing = False
        self._tasks = BackgroundTasks()
        self._preparing = BackgroundTasks()
        """PreBind steps, in which volumes and locks are waited for; no bind is sent before its own end."""

    async def __aenter__(self) -> Binder:
        """Prepare for `submit`."""
        await self._tasks.__aenter__()
        await self._preparing.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel all requests; the next leader reads the outcomes from the API server."""
        self._waiting.clear()
        await self._preparing.__aexit__(kind, error, trace)
        await self._tasks.__aexit__(kind, error, trace)
        self._flush()

    def submit(self, batch: BindBatch, cause: int = 0) -> None:
        """Send a gang's binds; their outcomes contain `cause` (the seq of the `Decided` event with the batch)."""
        self._probe.observe("volcanoio_bind_batch_size", len(batch.binds))
        if not batch.binds:
            return
        submitted = _Batch(batch, cause)
        self._batches.setdefault(batch.group, []).append(submitted)
        items = submitted.unsent = [_Bind(submitted, request, self._rng) for request in batch.binds]
        group = self._group_of(batch.group)
        if self._closing:
            self._refuse_all(items, 0, ENDING, _ENDS)
        elif group is not None or any(request.prebind for request in batch.binds):
            self._preparing.start(self._prepare(items, group))
        else:
            self._send(items)

    def _send(self, items: list[_Bind]) -> None:
        """Send binds whose steps are done, as the window allows."""
        self._prebound([item.request for item in items])
        self._waiting.extend(items)
        self._pump()

    async def _prepare(self, items: list[_Bind], group: AnyPodGroup | None) -> None:
        """Confirm the PodGroup and carry out the steps before the binds; then send all of them, or refuse all."""
        if group is not None:
            code, changed = await self._prebinder.changed(group)
            if changed:
                self._refuse_all(items, code, GROUP_CHANGED, changed)
                return
        since = self._clock.monotonic()
        first, later = _split_by_lock(items)
        rest = [_without_locks(item.request) for following in later for item in following]
        failure = await self._prebinder.carry_out([*(item.request for item in first), *rest])
        if any(item.request.prebind for item in items):
            self._took("PreBind", since)
        if failure is not None:
            self._refuse_unprepared(items, failure)
            return
        self._send(first)
        for following in later:
            following[0].batch.queued += following
            self._preparing.start(self._send_after_unlock(following))

    async def _send_after_unlock(self, items: list[_Bind]) -> None:
        """Send binds that need the same lock, each once it was released; refuse the rest when it is not."""
        queued = items[0].batch.queued
        for at, item in enumerate(items):
            locked = await self._prebinder.lock(item.request)
            if isinstance(locked, PreBindFailure):
                left = items[at:]
                for each in left:
                    await self._prebinder.revert(_without_locks(each.request).prebind)
                for each in left:
                    queued.remove(each)
                self._refuse_unprepared(left, locked)
                return
            item.request = locked
            queued.remove(item)
            self._send([item])

    def _refuse_unprepared(self, items: list[_Bind], failure: PreBindFailure) -> None:
        pod = f"{failure.bind.namespace}/{failure.bind.name}"
        text = f"execute preBind for pod {pod} failed: {failure.message}"
        self._refuse_all(items, failure.code, PREBIND_FAILED, text)

    @property
    def unfinished(self) -> int:
        """Binds without a final outcome."""
        return sum(batch.open for batches in self._batches.values() for batch in batches)

    @property
    def is_busy(self) -> bool:
        """Whether binds wait to be sent or are in flight."""
        return bool(self._waiting) or self._window.in_flight > 0

    async def drain(self) -> None:
        """Refuse all batches of which nothing was sent, also later ones; return when the others have their outcomes.

        A gang is so bound as a whole or not at all, except for binds that wait for a lock: these are refused. What the
        PreBind steps wrote stays, as when a process is killed.
        """
        self._closing = True
        self._preparing.cancel()
        self._waiting = deque(item for item in self._waiting if not item.batch.unsent)
        for batch in [batch for batches in self._batches.values() for batch in batches]:
            self._refuse_all(batch.unsent or batch.queued, 0, ENDING, _ENDS)
        await self._preparing.finished()
        await self._tasks.finished()

    def _pump(self) -> None:
        """Send as many binds as the window allows."""
        now = self._clock.monotonic()
        while self._waiting and self._window.has_room(now):
            self._tasks.start(self._carry_out(self._take()))
        self._probe.gauge("volcanoio_binds_in_flight", self._window.in_flight)
        if self._waiting and not self._pausing and (wait := self._window.pause_left(now)):
            self._pausing = True
            self._tasks.start(self._go_on_after(wait))

    def _take(self) -> _Bind:
        """Return the next bind, which takes its place in the window and is sent."""
        self._window.in_flight += 1
        item = self._waiting.popleft()
        item.batch.unsent = []
        return item

    async def _go_on_after(self, wait: float) -> None:
        await self._clock.sleep(wait)
        self._pausing = False
        self._pump()

    async def _carry_out(self, item: _Bind) -> None:
        """Send a bind, then waiting ones, in the same asyncio task: a task for each is slower."""
        following: _Bind | None = item
        while following is not None:
            following = await self._attempt(following)

    def _next(self) -> _Bind | None:
        """Return the bind that an asyncio task continues with; others that the window admits get their own tasks."""
        now = self._clock.monotonic()
        if not self._waiting or not self._window.has_room(now):
            self._pump()
            return None
        item = self._take()
        if self._waiting and self._window.has_room(now):
            self._pump()
        return item

    async def _attempt(self, item: _Bind) -> _Bind | None:
        """Send one attempt within the window, then handle its response outside it; returns the next bind."""
        item.sent_at = self._clock.monotonic()
        has_node = self._may_use is None or self._may_use(item.request.node)
        try:
            answer = await self._post(item) if has_node else None
        finally:
            self._window.in_flight -= 1
        if not has_node:
            await self._revert(item, 0, NODE_LEFT, "the node is no longer one of this scheduler's")
        elif answer is None:  # nothing may be sent any more, so the steps stay
            self._refuse(item, 0, FENCED, "this process may not bind now")
        elif isinstance(answer, str):
            await self._find_out(item, answer)
        elif answer.ok:
            self._window.succeeded()
            self._took("Bind", item.sent_at)
            self._done(item)
            return self._next()
        elif answer.status == 429:
            self._again_later(item, answer)
        elif answer.status >= 500:
            await self._find_out(item, error_of(answer).message)
        elif answer.status == 409:
            await self._resolve_conflict(item, answer)
        else:
            error = error_of(answer)
            await self._revert(item, error.code, error.reason, error.message)
        self._pump()
        return None

    async def _revert(self, item: _Bind, code: int, reason: str, message: str) -> None:
        """Revert the steps before a bind, then refuse it: its pod is placed again after that."""
        if item.request.prebind:
            self._pump()  # no request is in flight for the bind, so its slot is free
            await self._prebinder.revert(item.request.prebind)
        self._refuse(item, code, reason, message)

    async def _post(self, item: _Bind) -> Response | str | None:
        """Return the response, or the error without one; None if nothing was sent."""
        if self._fence is not None and not self._fence():
            return None
        try:
            return await bind_request(item.request).send(self._transport, timeout=self._timeout)
        except NotSent:
            return None
        except TransportError as error:
            return str(error)

    def _again_later(self, item: _Bind, answer: Response) -> None:
        """Requeue a bind after a 429: it is sent first when the pause ends."""
        now = self._clock.monotonic()
        wait = item.backoff.next(error_of(answer, now=self._clock.now()).retry_after)
        self._window.overloaded(sent_at=item.sent_at, now=now, retry_after=wait)
        self._probe.count("volcanoio_bind_overloads_total")
        self._waiting.appendleft(item)

    async def _resolve_conflict(self, item: _Bind, answer: Response) -> None:
        """Resolve a 409: done if the pod is bound to our node, by an earlier attempt or process; refused otherwise."""
        self._pump()  # the request has ended, so its slot is free
        if await self._look(item) is Finding.BOUND_HERE:
            self._done(item)
        else:
            error = error_of(answer)
            await self._revert(item, error.code, error.reason, error.message)

    async def _find_out(self, item: _Bind, message: str) -> None:
        """Publish the unknown outcome, then read the pod until the outcome is known."""
        self._pump()  # the request has ended, so its slot is free
        self._queue_outcome(BindUnknown(cause=item.batch.cause, **self._where(item), message=message))
        await self._clock.sleep(item.backoff.next())
        found = await self._look(item)
        if found is Finding.BOUND_HERE:
            self._done(item)
        elif found is Finding.UNBOUND:
            self._waiting.appendleft(item)
        else:
            code, reason = (404, "NotFound") if found is Finding.GONE else (409, "Conflict")
            await self._revert(item, code, reason, f"the pod is {found.value}")

    async def _look(self, item: _Bind) -> Finding:
        """Read the pod, uncached, until there is a response."""
        request = requests.get(POD, item.request.namespace, item.request.name)
        while True:
            retry_after = 0.0
            try:
                response = await request.send(self._transport, timeout=self._timeout)
                found = finding(item.request, response)
                if found is not None:
                    return found
                retry_after = error_of(response, now=self._clock.now()).retry_after
            except TransportError:
                self._probe.count("volcanoio_bind_lookup_failures_total")
            await self._clock.sleep(item.backoff.next(retry_after))

    def _took(self, stage: str, since: float) -> None:
        """Record the duration of a stage of scheduling; `since` is in seconds of the monotonic clock."""
        took = (self._clock.monotonic() - since) * 1000 / self._clock.rate
        self._probe.observe("volcano_scheduling_stage_duration_milliseconds", took, stage=stage)

    def _where(self, item: _Bind) -> dict[str, Any]:
        request = item.request
        return {
            "group": item.batch.group,
            "uid": request.uid,
            "namespace": request.namespace,
            "name": request.name,
            "node": request.node,
        }

    def _done(self, item: _Bind) -> None:
        self._finish(item, BindDone(cause=item.batch.cause, **self._where(item)))

    def _refuse(self, item: _Bind, code: int, reason: str, message: str) -> None:
        refused = BindRefused(cause=item.batch.cause, **self._where(item), code=code, reason=reason, message=message)
        self._finish(item, refused)

    def _refuse_all(self, items: list[_Bind], code: int, reason: str, message: str) -> None:
        for item in items:
            self._refuse(item, code, reason, message)

    def _finish(self, item: _Bind, outcome: Event) -> None:
        batch = item.batch
        batch.open -= 1
        if not batch.open:
            in_progress = self._batches[batch.group]
            in_progress.remove(batch)
            if not in_progress:
                del self._batches[batch.group]
        self._queue_outcome(outcome)

    def _queue_outcome(self, event: Event) -> None:
        """Publish all outcomes of one turn of the event loop together."""
        if not self._outcomes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outcomes.append(event)

    def _flush(self) -> None:
        if self._outcomes:
            events, self._outcomes = self._outcomes, []
            self._publish(events)


def _split_by_lock(items: Sequence[_Bind]) -> tuple[list[_Bind], list[list[_Bind]]]:
    """Return the binds that can be sent first, and those that follow one of them because they lock the same object."""
    first: list[_Bind] = []
    later: dict[tuple[str, str, str], list[_Bind]] = {}
    for item in items:
        locked = next(
            ((step.resource, step.namespace, step.name) for step in item.request.prebind if step.before), None
        )
        if locked is None:
            first.append(item)
        elif (following := later.get(locked)) is None:
            later[locked] = []
            first.append(item)
        else:
            following.append(item)
    return first, [following for following in later.values() if following]


def _without_locks(request: BindRequest) -> BindRequest:
    """Return a bind without the steps that take locks."""
    return msgspec.structs.replace(request, prebind=tuple([step for step in request.prebind if not step.before]))


_ENDS = "this process ends"
_TEMPLATE = (
    b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%b,"namespace":%b,"uid":%b%b},'
    b'"target":{"apiVersion":"v1","kind":"Node","name":%b}}'
)
_ENCODER = msgspec.json.Encoder()


class Finding(StrEnum):
    """Result of an uncached read of the pod, with respect to our bind."""

    BOUND_HERE = "bound here"
    BOUND_ELSEWHERE = "bound to another node"
    GONE = "gone"
    UNBOUND = "not bound"


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_DECODER = msgspec.json.Decoder(_Pod)


def bind_request(request: BindRequest) -> Request:
    """Build POST pods/NAME/binding. The uid is a precondition: a new pod of the same name is not bound."""
    encode = _ENCODER.encode
    annotations = b',"annotations":' + encode(request.annotations) if request.annotations else b""
    body = _TEMPLATE % (
        encode(request.name),
        encode(request.namespace),
        encode(request.uid),
        annotations,
        encode(request.node),
    )
    return Request(method="POST", path=POD.path(request.namespace, request.name, "binding"), body=body)


def finding(request: BindRequest, response: Response) -> Finding | None:
    """Evaluate a GET of the pod; returns None if the response proves nothing and the GET must be repeated."""
    if response.status == 404:
        return Finding.GONE
    if not response.ok:
        return None
    pod = _DECODER.decode(response.body)
    if pod.metadata.uid != request.uid:
        return Finding.GONE
    if not pod.spec.node_name:
        return Finding.UNBOUND
    return Finding.BOUND_HERE if pod.spec.node_name == request.node else Finding.BOUND_ELSEWHERE
