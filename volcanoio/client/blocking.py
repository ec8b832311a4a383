"""`Client` and `Job`: the asynchronous classes for code without await; each method is declared once, there.

Their coroutines run on an event loop in a thread, so that they can be called anywhere: in scripts, in notebooks and
inside a running event loop (which they block).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from volcanoio.client.client import AsyncClient
from volcanoio.client.errors import ClientError
from volcanoio.client.job import AsyncJob, Status
from volcanoio.compose.options import LocalOptions

P = ParamSpec("P")
Answer = TypeVar("Answer")
Asynchronous = TypeVar("Asynchronous")
_END = object()


class _Blocking(Generic[Asynchronous]):
    """An asynchronous object, and the loop on which its coroutines run."""

    def __init__(self, asynchronous: Asynchronous, portal: BlockingPortal) -> None:
        self._asynchronous = asynchronous
        self._portal = portal

    def _call(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run a coroutine to its end. Ctrl-C cancels it, and KeyboardInterrupt has the notes of the cancelled one."""
        ended, notes = threading.Event(), list[str]()

        async def run() -> Answer:
            try:
                return await call()
            except anyio.get_cancelled_exc_class() as error:
                notes.extend(getattr(error, "__notes__", ()))
                raise
            finally:
                ended.set()

        future = self._portal.start_task_soon(run)
        try:
            return future.result()
        except KeyboardInterrupt:
            if future.cancel():
                ended.wait()
            raise KeyboardInterrupt(*notes) from None


def _blocking(
    method: Callable[Concatenate[Asynchronous, P], Awaitable[Answer]],
) -> Callable[Concatenate[_Blocking[Asynchronous], P], Answer]:
    """Return the method that waits for a coroutine method."""

    @wraps(method)
    def call(self: _Blocking[Asynchronous], /, *args: P.args, **options: P.kwargs) -> Answer:
        return self._call(partial(method, self._asynchronous, *args, **options))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncJob, P], AsyncIterator[Answer]],
) -> Callable[Concatenate[_Blocking[AsyncJob], P], Iterator[Answer]]:
    """Return the generator method of an asynchronous one."""

    @wraps(method)
    def call(self: _Blocking[AsyncJob], /, *args: P.args, **options: P.kwargs) -> Iterator[Answer]:
        items = method(self._asynchronous, *args, **options)
        try:
            while (item := self._call(partial(anext, items, _END))) is not _END:
                yield item
        finally:
            self._call(items.aclose)  # type: ignore[attr-defined]  # of generators, which all of them are

    return call


def _creating(
    method: Callable[Concatenate[AsyncClient, P], Awaitable[AsyncJob]],
) -> Callable[Concatenate[_Blocking[AsyncClient], P], Job]:
    """Return the method that waits for a coroutine method which returns a job."""

    @wraps(method)
    def call(self: _Blocking[AsyncClient], /, *args: P.args, **options: P.kwargs) -> Job:
        return Job(self._call(partial(method, self._asynchronous, *args, **options)), self)

    return call


class Job(_Blocking[AsyncJob]):
    """A job of the cluster; its methods are those of `AsyncJob` and return when the answer is there."""

    def __init__(self, asynchronous: AsyncJob, client: _Blocking[AsyncClient]) -> None:
        super().__init__(asynchronous, client._portal)
        self._client = client  # which is closed once nothing refers to it
        self.name = asynchronous.name
        self.namespace = asynchronous.namespace
        self.uid = asynchronous.uid

    @property
    def status(self) -> Status:
        """Its current state, read from the cluster."""
        return self._call(lambda: self._asynchronous.status)

    wait = _blocking(AsyncJob.wait)
    result = _blocking(AsyncJob.result)
    pods = _blocking(AsyncJob.pods)
    logs = _iterating(AsyncJob.logs)
    events = _blocking(AsyncJob.events)
    why = _blocking(AsyncJob.why)
    eta = _blocking(AsyncJob.eta)
    timeline = _blocking(AsyncJob.timeline)
    yaml = _blocking(AsyncJob.yaml)
    cancel = _blocking(AsyncJob.cancel)
    suspend = _blocking(AsyncJob.suspend)
    resume = _blocking(AsyncJob.resume)

    def __repr__(self) -> str:
        return repr(self._asynchronous).replace("AsyncJob", "Job", 1)

    def _repr_html_(self) -> str:
        """Return its current state as a card for notebooks; the last known one if it cannot be read."""
        with suppress(ClientError):
            self._call(lambda: self._asynchronous.status)
        return self._asynchronous._repr_html_()


class Client(_Blocking[AsyncClient]):
    """Client of a cluster; its methods are those of `AsyncClient` and return when the answer is there.

    Without arguments it connects as kubectl does: by $KUBECONFIG, ~/.kube/config or the service account of its pod, and
    without these by the kubeconfig of a `volcanoio up` in this directory. With `local` it starts a cluster of its own
    in a thread, with simulated nodes unless LocalOptions say otherwise, and stops it when it is closed: by `close`, at
    the end of a with statement, or with the program. A program that has not configured structlog gets a configuration
    that prints warnings and errors on stderr. Raises Unreachable without a usable kubeconfig.
    """

    def __init__(
        self,
        kubeconfig: str | Path | None = None,
        *,
        context: str = "",
        namespace: str = "",
        local: bool | LocalOptions = False,
    ) -> None:
        asynchronous = AsyncClient(kubeconfig, context=context, namespace=namespace, local=local)
        with ExitStack() as stack:
            super().__init__(asynchronous, stack.enter_context(start_blocking_portal(name="volcanoio-client")))
            stack.callback(self._portal.call, asynchronous.close)
            self._call(asynchronous.__aenter__)
            self._close = weakref.finalize(self, stack.pop_all().close)

    def __enter__(self) -> Self:
        """Return the client, which is connected already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; submitted jobs keep running, those of an embedded cluster end with it."""
        self.close()

    def close(self) -> None:
        """Close the connection, and stop an embedded cluster."""
        self._close()

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._asynchronous.server

    @property
    def kubeconfig(self) -> Path | None:
        """The kubeconfig of an embedded cluster, for kubectl; None for other clusters."""
        return self._asynchronous.kubeconfig

    submit = _creating(AsyncClient.submit)
    map = _creating(AsyncClient.map)
    job = _creating(AsyncClient.job)
    run = _blocking(AsyncClient.run)

    def jobs(self, *, namespace: str = "", queue: str = "") -> list[Job]:
        """List the jobs of a namespace, by default the client's, and of a queue if one is given; oldest first."""
        found = self._call(partial(self._asynchronous.jobs, namespace=namespace, queue=queue))
        return [Job(each, self) for each in found]
