"""Viewers of the page, and what each of them may do, as the API server answers.

Every request to the API server is made with the viewer's own credentials, also the watches of a feed. On loopback there
is one viewer: the user of the kubeconfig. In a cluster each bearer token is a viewer, and the process has no rights.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus

from volcanoio.engine.overview import KINDS
from volcanoio.kube.client import Client
from volcanoio.kube.credentials.reviews import Action, may, own_name
from volcanoio.kube.errors import ApiError, Unauthorized
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.kinds import Kind
from volcanoio.web.feed import Feed

MOST_VIEWERS = 64
"""Viewers with a feed at a time; each keeps what it may see in memory."""
MOST_FEEDS = 4
"""Feeds of one viewer at a time, each of one namespace or of all; each watches the nodes and queues, too."""
RIGHT_SECONDS = 30.0
"""Seconds for which an answered right is used."""
IDLE_SECONDS = 90.0
"""Seconds after its last reader after which a feed ends."""
_SWEEP_SECONDS = 15.0
_log = structlog.get_logger(__name__)


class TooManyViewersError(Exception):
    """No further viewer can be served now; the message contains the next step."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_VIEWERS} users are served already; try again in {IDLE_SECONDS:.0f} s")


class TooManyFeedsError(Exception):
    """A viewer reads too many namespaces at a time; the message contains the next step."""

    def __init__(self) -> None:
        super().__init__(
            f"you read {MOST_FEEDS} namespaces already; close a page that shows another one, and try again"
        )


@dataclass
class _Running:
    """A feed at work; `readers` are open streams."""

    feed: Feed
    scope: anyio.CancelScope
    readers: int = 0
    last_used: float = field(default_factory=time.monotonic)


class Viewer:
    """One user: a transport with its credentials, its rights and its feeds. `csrf` must accompany its actions."""

    def __init__(self, transport: Transport, csrf: str, now: Callable[[], float] = time.time) -> None:
        self.client = Client(transport)
        self.csrf = csrf
        self.name: str | None = None
        """Name of the user, "" if the API server does not return it; None until it was asked."""
        self.last_seen = time.monotonic()
        """When the last request of the user came."""
        self._transport = transport
        self._now = now
        self._rights: dict[Action, tuple[float, bool]] = {}
        self._feeds: dict[str, _Running] = {}
        self._starting = anyio.Lock()

    async def introduce(self) -> None:
        """Ask for the name of the user. Raises Unauthorized for credentials that are not accepted."""
        try:
            self.name = await own_name(self._transport)
        except Unauthorized:
            raise
        except (ApiError, msgspec.DecodeError):  # an API server before 1.28
            self.name = ""

    async def may(self, verb: str, kind: Kind, namespace: str = "", subresource: str = "") -> bool:
        """Return whether the user may do this, as of the last 30 s. Raises ApiError, TransportError."""
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        asked = Action(verb, kind.group, resource, namespace)
        at, allowed = self._rights.get(asked, (float("-inf"), False))
        now = time.monotonic()
        if now - at < RIGHT_SECONDS:
            return allowed
        allowed = await may(self._transport, asked)
        self._rights[asked] = now, allowed
        return allowed

    async def readable(self, namespace: str) -> frozenset[Kind]:
        """Return the kinds that the user may list and watch, in the namespace or ("") everywhere."""
        found = []
        for kind in KINDS:
            where = namespace if kind.namespaced else ""
            if await self.may("list", kind, where) and await self.may("watch", kind, where):
                found.append(kind)
        return frozenset(found)

    async def feed(self, namespace: str, tasks: TaskGroup) -> Feed:
        """Return the user's feed of a namespace, started if it does not run; its lists are read.

        The feed that was not read for the longest time ends if there are too many. Raises TooManyFeedsError if all are
        being read, ApiError, TransportError.
        """
        async with self._starting:
            readable = await self.readable(namespace)
            running = self._feeds.get(namespace)
            if running is not None and running.feed.readable != readable:  # rights were given or taken
                self._end(namespace)
                running = None
            if running is None:
                self._make_room()
                feed = Feed(self._transport, readable, namespace=namespace, now=self._now)
                running = self._feeds[namespace] = _Running(feed, anyio.CancelScope())
                tasks.start_soon(_run, running)
        async with self.reading(running.feed):
            await running.feed.synced()
        return running.feed

    def _make_room(self) -> None:
        """End the feed that was not read for the longest time if no other can start."""
        if len(self._feeds) >= MOST_FEEDS:
            unread = [namespace for namespace, running in self._feeds.items() if not running.readers]
            if not unread:
                raise TooManyFeedsError
            self._end(min(unread, key=lambda namespace: self._feeds[namespace].last_used))

    def _end(self, namespace: str) -> None:
        self._feeds.pop(namespace).scope.cancel()

    @asynccontextmanager
    async def reading(self, feed: Feed) -> AsyncIterator[None]:
        """Keep a feed running while a stream reads it."""
        running = self._feeds.get(feed.namespace)
        if running is None or running.feed is not feed:
            yield
            return
        running.readers += 1
        try:
            yield
        finally:
            running.readers -= 1
            running.last_used = time.monotonic()

    async def may_still_read(self, feed: Feed) -> bool:
        """Return whether the user still has the rights with which a feed was started."""
        running = self._feeds.get(feed.namespace)
        return running is not None and running.feed is feed and await self.readable(feed.namespace) == feed.readable

    def end_idle_feeds(self, now: float) -> bool:
        """End feeds without readers, and forget old rights; returns whether the user has no feed left."""
        self._rights = {asked: right for asked, right in self._rights.items() if now - right[0] < RIGHT_SECONDS}
        for namespace, running in list(self._feeds.items()):
            if not running.readers and now - running.last_used > IDLE_SECONDS:
                self._end(namespace)
        return not self._feeds

    async def close(self) -> None:
        """End all feeds, and close the connections."""
        for running in self._feeds.values():
            running.scope.cancel()
        self._feeds.clear()
        self._rights.clear()  # so that a request that still runs starts no feed
        await self._transport.aclose()


async def _run(running: _Running) -> None:
    with running.scope:
        try:
            await running.feed.run()
        except Exception:
            _log.exception("the feed of a viewer ended")


class Viewers:
    """The users of one server: `run` until cancelled.

    With `own`, a transport with the kubeconfig's credentials, there is one user, who shows `key`. Otherwise `connect`
    returns a transport for the value of an Authorization header. `now` returns the cluster's time.
    """

    def __init__(
        self,
        *,
        own: Transport | None = None,
        connect: Callable[[str], Transport] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._secret = secrets.token_bytes(32)
        self.key = "" if own is None else secrets.token_urlsafe(24)
        """Key of the only user; "" if users have tokens of their own."""
        self._own = None if own is None else Viewer(own, self._csrf(self.key), now)
        self._connect = connect
        self._by_token: dict[str, Viewer] = {}
        self.running = anyio.Event()
        """Set once `run` has begun."""
        self.tasks: TaskGroup
        """Where feeds run."""

    @property
    def uses_tokens(self) -> bool:
        """Whether each user has credentials of its own."""
        return self._own is None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the feeds of all users, and end those without readers."""
        async with anyio.create_task_group() as self.tasks:
            self.running.set()
            task_status.started()
            try:
                while True:
                    await anyio.sleep(_SWEEP_SECONDS)
                    await self._sweep()
            finally:
                self.tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                    for viewer in list(self._by_token.values()):
                        await viewer.close()

    async def find(self, authorization: str) -> Viewer | None:
        """Return the user of an Authorization header; None if it is not acceptable.

        Raises Unauthorized for a token that the API server does not accept, TooManyViewersError, TransportError.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not (token.isascii() and token.isprintable()):
            return None
        if self._own is not None:
            if not hmac.compare_digest(token, self.key):
                return None
            if self._own.name is None:
                with suppress(TransportError):
                    await self._own.introduce()
            return self._own
        name = hashlib.sha256(token.encode()).hexdigest()
        if (viewer := self._by_token.get(name)) is None:
            viewer = await self._admit(name, f"Bearer {token}")
        viewer.last_seen = time.monotonic()
        return viewer

    async def forget(self, viewer: Viewer) -> None:
        """Forget a user whose credentials are no longer accepted, or who has gone."""
        for name, known in list(self._by_token.items()):
            if known is viewer:
                del self._by_token[name]
                await viewer.close()

    async def _admit(self, name: str, authorization: str) -> Viewer:
        assert self._connect is not None
        if len(self._by_token) >= MOST_VIEWERS:
            raise TooManyViewersError
        viewer = Viewer(self._connect(authorization), self._csrf(name), self._now)
        try:
            await viewer.introduce()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await viewer.close()
            raise
        known = self._by_token.setdefault(name, viewer)
        if known is not viewer:
            await viewer.close()
        return known

    async def _sweep(self) -> None:
        now = time.monotonic()
        if self._own is not None:
            self._own.end_idle_feeds(now)
        for viewer in list(self._by_token.values()):
            if viewer.end_idle_feeds(now) and now - viewer.last_seen > IDLE_SECONDS:
                await self.forget(viewer)

    def _csrf(self, identity: str) -> str:
        return hmac.new(self._secret, identity.encode(), hashlib.sha256).hexdigest()
