"""The API server below HTTP: one request in, one answer or stream out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import structlog

from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.admission import Admission
from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.authn.tokens import Tokens
from volcanoio.localcluster.apiserver.bootstrap import bootstrap
from volcanoio.localcluster.apiserver.clock import Clock, WallClock
from volcanoio.localcluster.apiserver.controllers.accounttokens import AccountTokenController
from volcanoio.localcluster.apiserver.controllers.claims.binder import ClaimController
from volcanoio.localcluster.apiserver.controllers.definitions import DefinitionController
from volcanoio.localcluster.apiserver.controllers.expiry import EventExpiry
from volcanoio.localcluster.apiserver.controllers.garbage import GarbageCollector
from volcanoio.localcluster.apiserver.controllers.namespaces import NamespaceController
from volcanoio.localcluster.apiserver.controllers.serviceaccounts import AccountController
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.deleter import Deleter
from volcanoio.localcluster.apiserver.dispatch import Dispatcher
from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.faults import Faults, carry_out
from volcanoio.localcluster.apiserver.identity import Identity
from volcanoio.localcluster.apiserver.metrics.traffic import Traffic
from volcanoio.localcluster.apiserver.persistence import Journal
from volcanoio.localcluster.apiserver.protobuf.door import as_json, is_protobuf
from volcanoio.localcluster.apiserver.reader import Reader
from volcanoio.localcluster.apiserver.registry import Registry
from volcanoio.localcluster.apiserver.store import Store
from volcanoio.localcluster.apiserver.streams.remote import StreamSource
from volcanoio.localcluster.apiserver.views import TableView
from volcanoio.localcluster.apiserver.yamlanswers import in_json, in_yaml, wants_yaml

_log = structlog.get_logger(__name__)

Route: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse | ApiStream | None]]
"""Something tried before the resources (discovery, version, health, logs); None lets the next one try."""


class ApiServer:
    """Kubernetes' API semantics over a store.

    `routes` are tried first, in order, and for GET `pages` before them. `table` prints answers to requests that accept
    `as=Table`. Make one with `open`, and answer requests within `running`.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        clock: Clock,
        admission: Sequence[Admission],
        faults: Faults | None,
        identity: Identity | None = None,
    ) -> None:
        self.core = Core(store, clock, journal, admission, identity)
        self.pages: list[Route] = []
        self.routes: list[Route] = []
        self.traffic = Traffic(self.core.registry)
        self.faults = faults
        self.in_flight = 0
        """Requests that are being answered."""
        self._journal = journal
        self._deleter = Deleter(self.core)
        self._dispatcher = Dispatcher(self.core, self._deleter)
        self.expiry = EventExpiry(self.core)

    @classmethod
    def open(
        cls,
        data: Path | None,
        *,
        clock: Clock | None = None,
        admission: Sequence[Admission] = (),
        faults: Faults | None = None,
        identity: Callable[[], Identity] | None = None,
    ) -> ApiServer:
        """A server on a data directory, or in memory without one.

        `identity` gives the key of service account tokens, and the authority they are told to trust, once the directory
        is claimed; without one the tokens end with the server. Reads back all objects. Raises DataDirectoryBusy when
        another server runs there, and DataDirectoryUnusable.
        """
        journal = None if data is None else Journal(data)
        try:
            known = None if identity is None else identity()
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        store = Store(journal.revision if journal is not None else 0)
        if journal is not None:
            for ref, stored in journal.objects():
                store.load(ref, stored)
        server = cls(store, journal, clock or WallClock(), admission, faults, known)
        server.core.volumes = None if data is None else data / "volumes"
        return server

    @property
    def registry(self) -> Registry:
        """The served resources."""
        return self.core.registry

    @property
    def store(self) -> Store:
        """The objects, for routes that read them (logs)."""
        return self.core.store

    @property
    def reader(self) -> Reader:
        """What answers reads, for routes that make their objects themselves (metrics)."""
        return self._dispatcher.reader

    @property
    def tokens(self) -> Tokens:
        """Issues and verifies service account tokens."""
        return self.core.tokens

    @property
    def table(self) -> TableView | None:
        """What prints Tables."""
        return self._dispatcher.reader.table

    @table.setter
    def table(self, view: TableView | None) -> None:
        self._dispatcher.reader.table = view

    def serve_streams(self, source: StreamSource) -> None:
        """Let exec and attach reach the containers of `source`."""
        self._dispatcher.streams = source

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiServer]:
        """Serve: makes what every cluster has, runs the server's own controllers, and stops cleanly at the end."""
        definitions = DefinitionController(self.core, self._deleter)
        namespaces = NamespaceController(self.core, self._deleter)
        garbage = GarbageCollector(self.core, self._deleter)
        accounts, account_tokens = AccountController(self.core), AccountTokenController(self.core)
        claims = ClaimController(self.core)
        bootstrap(self.core)
        try:
            async with anyio.create_task_group() as tasks:
                for work in (definitions.work, namespaces.work, garbage.work, accounts.work):
                    tasks.start_soon(work.run)
                for run in (account_tokens.work.run, self.core.quotas.work.run, claims.work.run):
                    tasks.start_soon(run)
                tasks.start_soon(self.expiry.run)
                try:
                    yield self
                finally:
                    self._dispatcher.reader.close_all()
                    tasks.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await self.core.webhooks.aclose()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:  # the caller's own error, as it raised it
                raise group.exceptions[0] from None
            raise
        finally:
            if self._journal is not None:
                with anyio.CancelScope(shield=True):
                    await self._journal.aclose()

    def close(self) -> None:
        """Give the data directory up without having served; `running` does so by itself."""
        if self._journal is not None:
            self._journal.close()

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """Answer one request; never raises for what a client sent.

        Raises ConnectionDropped when an installed fault wants the connection cut.
        """
        self.in_flight += 1
        try:
            if self.faults is not None:
                return await self._handle_with_faults(self.faults, request)
            return await self._handle(request)
        finally:
            self.in_flight -= 1

    async def _handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        try:
            bodies.check_size(request)
            if is_protobuf(request):
                request = as_json(request, self.core.registry)
            if wants_yaml(request):
                whole = await self._handle(in_json(request))
                return in_yaml(whole) if isinstance(whole, ApiResponse) else whole
            for routes in (self.pages, self.routes) if request.method == "GET" else (self.routes,):
                for route in routes:
                    answer = await route(request)
                    if answer is not None:
                        return answer
            return await self._dispatcher.dispatch(request)
        except ApiError as error:
            return error.response()
        except RecursionError:
            return errors.bad_request("the object is nested too deeply").response()
        except Exception as error:
            _log.exception("apiserver_request_failed", method=request.method, path=request.path)
            return errors.internal(f"{type(error).__name__}: {error}").response()

    async def _handle_with_faults(self, faults: Faults, request: ApiRequest) -> ApiResponse | ApiStream:
        rule = faults.note(request)
        if rule is not None and rule.when == "before":
            replaced = await carry_out(rule)
            if replaced is not None:
                return replaced
        answer = await self._handle(request)
        if rule is not None and rule.when == "after":
            return await carry_out(rule) or answer
        return answer
