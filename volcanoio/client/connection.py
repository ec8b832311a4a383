"""The connection of a client to a cluster, or to an embedded one that it starts in a thread of its own."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import structlog
from anyio.from_thread import start_blocking_portal

from volcanoio.client.errors import ClientError, ServerWarning, Unreachable, reported
from volcanoio.compose.options import HISTORY, LocalOptions, OptionError
from volcanoio.kube.client import Client as KubeClient
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import DEFAULT_PATH, ConfigError, environment_paths, load

UP = Path(".volcanoio") / "kubeconfig"
"""The kubeconfig that `volcanoio up` writes, used as commands do: where there is no other one."""


class ClusterConnection:
    """A connection that opens on the first request; `server` and `namespace` are set then."""

    def __init__(self, kubeconfig: str | Path | None, context: str, namespace: str, local: bool | LocalOptions) -> None:
        if local and (kubeconfig is not None or context):
            raise ClientError("local= starts a cluster of its own; leave kubeconfig= and context= out")
        self._kubeconfig = kubeconfig
        self.context = context
        self._local = local
        self._client: KubeClient | None = None
        self._thread = ExitStack()
        self._lock = anyio.Lock()
        self._is_closed = False
        self.server = ""
        self.namespace = namespace
        self.kubeconfigs: tuple[Path, ...] = ()
        """The files that are used, for programs that are started; () in a pod without one."""
        self.embedded: Path | None = None
        """The kubeconfig of the embedded cluster."""

    @property
    def history(self) -> Path | None:
        """The file in which the `volcanoio up` that wrote the kubeconfig keeps finished jobs; None if there is none."""
        beside = (path.parent / HISTORY for path in self.kubeconfigs)
        return next((path for path in beside if path.exists()), None)

    @asynccontextmanager
    async def requests(self, job: str = "") -> AsyncIterator[KubeClient]:
        """Provide the API server's client; errors become ClientErrors, about the job of that name if one is given."""
        async with self._lock:
            client = self._client or await self._open()
        with reported(self.server, job):
            yield client

    async def _open(self) -> KubeClient:
        """Connect. Raises Unreachable without a usable kubeconfig, ClientError for options of the embedded cluster."""
        if self._is_closed:
            raise ClientError("this client is closed; make a new one")
        path = self._kubeconfig
        _limit_logs()
        if self._local:
            options = self._local if isinstance(self._local, LocalOptions) else LocalOptions()
            enter = self._thread.enter_context
            path = self.embedded = await anyio.to_thread.run_sync(enter, _embedded_cluster(options))
        elif (
            path is None and not os.environ.get("KUBECONFIG") and not DEFAULT_PATH.expanduser().exists() and UP.exists()
        ):
            path = UP
        try:
            connection = await load(path, context=self.context)
        except ConfigError as error:
            raise Unreachable(f"{error}; without a cluster, use Client(local=True)") from None
        self.kubeconfigs = (Path(path),) if path is not None else tuple(environment_paths())
        self.server = connection.server
        self.namespace = self.namespace or connection.namespace
        self._client = KubeClient(HttpTransport(connection, warn=_warn))
        return self._client

    async def close(self) -> None:
        """Close the connection, and end the embedded cluster. It cannot be opened again."""
        async with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
            with anyio.CancelScope(shield=True):
                if client is not None:
                    await client.transport.aclose()
                try:
                    await anyio.to_thread.run_sync(self._thread.close)
                except RuntimeError:  # the program ends, and no thread can start any more
                    self._thread.close()


def _limit_logs() -> None:
    """Configure structlog for the whole process to print warnings and errors on stderr, unless it is configured.

    Its default prints all levels on stdout, where the program's own output is.
    """
    if not structlog.is_configured():
        level = structlog.make_filtering_bound_logger(logging.WARNING)
        structlog.configure(wrapper_class=level, logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def _warn(text: str) -> None:
    """Pass on a warning of the API server, such as about an unknown field."""
    warnings.warn(text, ServerWarning, stacklevel=2)


@contextmanager
def _embedded_cluster(options: LocalOptions) -> Iterator[Path]:
    """Run an embedded cluster in a thread, with an event loop of its own; yields its kubeconfig. Raises ClientError."""
    from volcanoio.compose.local import LocalCluster  # noqa: PLC0415 - a second of CPU time, which few clients need

    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal(name="volcanoio-local-cluster"))
        try:
            cluster = stack.enter_context(portal.wrap_async_context_manager(LocalCluster(options)))
        except OptionError as error:
            raise ClientError(f"local cluster: {error}") from None
        yield cluster.kubeconfig
