"""The API server without HTTP: one request in, one response or stream out.

`ApiServer` owns the shared state, the dispatcher and the server's own controllers; a new cluster first gets its
namespaces, the system priority classes and a storage class. `install` adds the routes beside the resources: discovery,
OpenAPI, health, logs, metrics, reviews. A client that only accepts YAML is answered in YAML.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import msgspec
import structlog
import yaml

from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.localcluster.apiserver.admission.reviewers import Admission
from volcanoio.localcluster.apiserver.admission.storage import CLASSES
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.clock import ClientClock, Clock, TimeOfDay, WallClock
from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.authn.credentials import Identity
from volcanoio.localcluster.apiserver.authn.reviews import Reviews
from volcanoio.localcluster.apiserver.authn.tokens import OpenIdPages, Tokens
from volcanoio.localcluster.apiserver.controllers.definitions import DefinitionController
from volcanoio.localcluster.apiserver.controllers.garbage import EventExpiry, GarbageCollector
from volcanoio.localcluster.apiserver.controllers.namespaces import NamespaceController
from volcanoio.localcluster.apiserver.controllers.service_accounts import AccountController, AccountTokenController
from volcanoio.localcluster.apiserver.controllers.volume_binder import COMPONENT, ClaimController
from volcanoio.localcluster.apiserver.controllers.volume_provisioning import CLASS_NAME, default_storage_class
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.http.faults import Faults, carry_out
from volcanoio.localcluster.apiserver.http.health import Health, version
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.metrics.container_usage import MetricsRoute, NodeProxy
from volcanoio.localcluster.apiserver.metrics.request_metrics import Figures, MetricsPage, Traffic
from volcanoio.localcluster.apiserver.openapi.discovery import Discovery
from volcanoio.localcluster.apiserver.openapi.v2 import OpenApiV2
from volcanoio.localcluster.apiserver.openapi.v3 import OpenApi
from volcanoio.localcluster.apiserver.printing.tables import Tables
from volcanoio.localcluster.apiserver.protobuf.decoding import as_json, is_protobuf
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.deleter import Deleter
from volcanoio.localcluster.apiserver.registry.dispatch import Dispatcher
from volcanoio.localcluster.apiserver.registry.events import EventsRoute
from volcanoio.localcluster.apiserver.registry.kinds.cluster import NAME_LABEL, SYSTEM_NAMESPACES
from volcanoio.localcluster.apiserver.registry.kinds.scheduling import SYSTEM_CLASSES, system_class
from volcanoio.localcluster.apiserver.registry.reader import Reader
from volcanoio.localcluster.apiserver.registry.views import TableView
from volcanoio.localcluster.apiserver.storage.persistence import Journal
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.localcluster.apiserver.streams.pod_connections import LogSource, PodLogs, unserved
from volcanoio.localcluster.apiserver.streams.remote import StreamSource
from volcanoio.model.base import Manifest

TYPE = "application/yaml"


def wants_yaml(request: ApiRequest) -> bool:
    """Return whether the client prefers YAML."""
    return request.headers.get("accept", "").startswith(TYPE)


def in_json(request: ApiRequest) -> ApiRequest:
    """Return the same request with JSON as the accepted type."""
    return msgspec.structs.replace(request, headers={**request.headers, "accept": "application/json"})


def in_yaml(answer: ApiResponse) -> ApiResponse:
    """Convert a JSON answer to YAML; others are returned unchanged."""
    if answer.content_type != "application/json":
        return answer
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    body = yaml.dump(msgspec.json.decode(answer.body), Dumper=dumper, allow_unicode=True)
    return msgspec.structs.replace(answer, body=body.encode(), content_type=TYPE)


def bootstrap(core: Core) -> None:
    """Create the objects that every cluster has, where they are missing."""
    for name in SYSTEM_NAMESPACES:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {NAME_LABEL: name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        _ensure(core, Ref("namespaces", "", name), namespace)
    for name in SYSTEM_CLASSES:
        _ensure(core, Ref("priorityclasses.scheduling.k8s.io", "", name), system_class(name))
    if not core.store.collection(CLASSES).objects:  # keeps classes of users, also without a default one
        _ensure(core, Ref(CLASSES, "", CLASS_NAME), default_storage_class())


def _ensure(core: Core, ref: Ref, obj: Manifest) -> None:
    if core.store.get(ref) is None:
        obj["metadata"] |= {"uid": core.new_uid(), "creationTimestamp": core.now()}
        core.store.put(ref, obj)


_log = structlog.get_logger(__name__)

Route: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse | ApiStream | None]]
"""A handler tried before the resources (discovery, version, health, logs); None passes the request on."""


class ApiServer:
    """Kubernetes' API semantics over a store.

    `routes` are tried first, in order, and for GET `pages` before them. `table` prints answers to requests that accept
    `as=Table`. Create one with `open`, and send requests within `running`.
    """

    def __init__(self, core: Core, faults: Faults | None = None) -> None:
        self.core = core
        self.pages: list[Route] = []
        self.routes: list[Route] = []
        self.traffic = Traffic(self.core.registry)
        self.faults = faults
        self.in_flight = 0
        """Number of current requests."""
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
        """Open a server on a data directory, or in memory without one.

        `identity` returns the key of service account tokens and the authority for clients, once the directory is
        locked; without one tokens are valid until the server stops. Loads all objects. Raises DataDirectoryBusy when
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
        server = cls(Core(store, clock or WallClock(), journal, admission, known), faults)
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
        """The reader, for routes that create their objects on request (metrics)."""
        return self._dispatcher.reader

    @property
    def tokens(self) -> Tokens:
        """The issuer and verifier of service account tokens."""
        return self.core.tokens

    @property
    def table(self) -> TableView | None:
        """The printer of Tables."""
        return self._dispatcher.reader.table

    @table.setter
    def table(self, view: TableView | None) -> None:
        self._dispatcher.reader.table = view

    def serve_streams(self, source: StreamSource) -> None:
        """Connect exec and attach to the containers of `source`."""
        self._dispatcher.streams = source

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiServer]:
        """Create every cluster's objects, run the server's own controllers, and stop at the end."""
        definitions = DefinitionController(self.core, self._deleter)
        namespaces = NamespaceController(self.core, self._deleter)
        garbage = GarbageCollector(self.core, self._deleter)
        accounts, account_tokens = AccountController(self.core), AccountTokenController(self.core)
        recorder = EventRecorder(InProcessTransport(self), component=COMPONENT, clock=ClientClock(self.core.clock))
        claims = ClaimController(self.core, recorder.record)
        bootstrap(self.core)
        try:
            async with anyio.create_task_group() as tasks:
                for work in (definitions.work, namespaces.work, garbage.work, accounts.work):
                    tasks.start_soon(work.run)
                for run in (account_tokens.work.run, self.core.quotas.work.run, claims.run):
                    tasks.start_soon(run)
                tasks.start_soon(self.expiry.run)
                tasks.start_soon(recorder.run, 1)
                try:
                    yield self
                finally:
                    self._dispatcher.reader.close_all()
                    tasks.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await self.core.webhooks.aclose()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:  # re-raise the caller's own error
                raise group.exceptions[0] from None
            raise
        finally:
            if self.core.journal is not None:
                with anyio.CancelScope(shield=True):
                    await self.core.journal.aclose()

    def close(self) -> None:
        """Release the data directory of a server that never ran; `running` does so by itself."""
        if self.core.journal is not None:
            self.core.journal.close()

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """Handle one request; never raises for a client's error.

        Raises ConnectionDropped when an installed fault drops the connection.
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


def install(
    server: ApiServer, *, logs: LogSource | None = None, clock: TimeOfDay | None = None, figures: Figures | None = None
) -> None:
    """Add the routes beside those of resources.

    Discovery, OpenAPI, version, health, reviews, metrics and tables, and pod logs if they have a source.

    `figures` returns the metrics of the process's other components, for /metrics.
    """
    clock = clock or server.core.clock
    registry = server.registry
    metrics, proxy = MetricsRoute(server.core, server.reader, clock), NodeProxy(server.core, clock)
    server.pages += [
        Discovery(registry),
        OpenApi(registry),
        OpenApiV2(registry),
        version,
        Health(server.core),
        metrics,
        proxy,
    ]
    server.pages += [OpenIdPages(server.tokens), MetricsPage(server.core, server.traffic, figures)]
    server.routes += [
        Reviews(server.core, server.tokens),
        unserved,
        EventsRoute(registry, server.handle, server.core.new_suffix),
    ]
    if logs is not None:
        server.pages.append(PodLogs(server.handle, logs, clock))
    server.table = Tables(clock)
