"""Connections of commands to an API server, with its errors as command errors.

`cluster_of` is for commands that are declared with `output.on_cluster`.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, sole_error, unknown_name
from volcanoio.kube.client import Client
from volcanoio.kube.decoding import UndecodableError
from volcanoio.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, Unauthorized
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import ConfigError, Connection, environment_paths, from_files, in_cluster
from volcanoio.kube.transport import NoCredentials, TransportError
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

LOCAL = Path(".volcanoio") / "kubeconfig"
_UNAUTHORIZED = (
    "the API server does not accept the credentials of this kubeconfig (Unauthorized); use a newer one, "
    "for a local cluster the one that its `volcanoio up` wrote"
)


def find_kubeconfigs(given: Path | None) -> list[Path]:
    """Return the kubeconfigs to use: the flag, $KUBECONFIG, ~/.kube/config, else that of a local `volcanoio up`."""
    if given is not None:
        return [given]
    own = Path.home() / ".kube" / "config"
    return environment_paths() or [own if _exists(own) or not _exists(LOCAL) else LOCAL]


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False where Path.exists raises: in a directory closed to us


def _print_warning(text: str) -> None:
    """Print a warning of the API server to stderr, as kubectl does."""
    print(f"Warning: {text}", file=sys.stderr)


class Target(NamedTuple):
    """The options by which a command selects its cluster, user and namespace; "" and None for those not given."""

    kubeconfig: Path | None = None
    context: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    namespace: str = ""
    everywhere: bool = False


_NOT_GIVEN = Target()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster; `namespace` is "" for all namespaces. `now` is the time that ages are relative to.

    `target` are the options by which it was selected.
    """

    client: Client
    namespace: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    target: Target = _NOT_GIVEN

    @property
    def place(self) -> str:
        """The namespace in messages, as `in namespace default`; "" for all."""
        return f"in namespace {self.namespace}" if self.namespace else ""

    async def get(self, kind: Kind, name: str) -> ApiObject:
        """Read an object in the namespace; raises UsageError with close names if it does not exist."""
        namespace = self.namespace if kind.namespaced else ""
        try:
            return await self.client.get(kind, name, namespace)
        except NotFound:
            known = [each.metadata.name for each in await self.client.list(kind, namespace)]
            raise unknown_name(kind.kind.lower(), name, known, self.place if kind.namespaced else "") from None


@asynccontextmanager
async def cluster_of(target: Target) -> AsyncIterator[Cluster]:
    """Connect to the cluster of these options; API errors in the block become CommandErrors."""
    if target.as_groups and not target.as_user:
        raise UsageError("--as-group: a group needs a user to act as; add --as USER")
    connection = await found_connection(target.kubeconfig, target.context)
    if target.as_user:
        headers = (("Impersonate-User", target.as_user), *(("Impersonate-Group", each) for each in target.as_groups))
        connection = replace(connection, headers=headers)
    namespace = "" if target.everywhere else target.namespace or connection.namespace
    transport = HttpTransport(connection, warn=_print_warning)
    try:
        with reporting_api_errors():
            yield Cluster(Client(transport), namespace, transport.now, target)
    finally:
        await transport.aclose()


@asynccontextmanager
async def connected(kubeconfig: Path | None, master: str = "") -> AsyncIterator[Client]:
    """Connect to the cluster, in a pod without kubeconfig by its service account.

    Raises CommandError if there is no configuration.
    """
    if master and not master.startswith(("http://", "https://")):
        raise CommandError(f'--master: "{master}" is not an http(s) URL; write for instance https://127.0.0.1:6443')
    connection = await found_connection(kubeconfig)
    transport = HttpTransport(replace(connection, server=master) if master else connection, warn=_print_warning)
    try:
        yield Client(transport)
    finally:
        await transport.aclose()


async def found_connection(kubeconfig: Path | None, context: str = "") -> Connection:
    """Return the connection of a kubeconfig, in a pod without one that of its service account.

    Raises CommandError if there is no configuration.
    """
    paths = find_kubeconfigs(kubeconfig)
    exists = any(map(_exists, paths))
    is_pod = kubeconfig is None and not exists and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    if not is_pod and not exists:
        msg = (
            f"no kubeconfig at {' or '.join(map(str, paths))}; start a local cluster with `volcanoio up`, "
            "then set KUBECONFIG=.volcanoio/kubeconfig or pass --kubeconfig"
        )
        raise CommandError(msg, ExitCode.UNREACHABLE)
    try:
        return in_cluster() if is_pod else await from_files(paths, context=context)
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None


@contextmanager
def reporting_api_errors() -> Iterator[None]:
    """Convert API errors and lost connections to CommandErrors, also where one is the only error of a task group."""
    try:
        yield
    except (ApiError, TransportError, UndecodableError, BaseExceptionGroup) as error:
        if (problem := _command_error(sole_error(error))) is None:
            raise
        raise problem from None


def _command_error(error: BaseException) -> CommandError | None:
    """Return the CommandError for an API error or a lost connection; None for other errors."""
    if isinstance(error, BadRequest | Forbidden | Invalid):  # a webhook refuses with 400, or as it chooses
        return CommandError(error.message, ExitCode.REJECTED)
    if isinstance(error, Unauthorized):
        return CommandError(_UNAUTHORIZED, ExitCode.REJECTED)
    if isinstance(error, NotFound) and error.is_unserved:
        return CommandError(f"{error.message}; are Volcano's definitions installed? see: volcanoio doctor")
    if isinstance(error, ApiError):
        return CommandError(error.message)
    if isinstance(error, NoCredentials):
        return CommandError(str(error), ExitCode.REJECTED)
    if isinstance(error, UndecodableError):
        return CommandError(f"an object cannot be read: {error}; correct or delete it with kubectl")
    if isinstance(error, TransportError):
        text = f"cannot reach the API server: {error}; is it running? start one with `volcanoio up`"
        return CommandError(text, ExitCode.UNREACHABLE)
    return None
