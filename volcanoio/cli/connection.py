"""Connections of commands to an API server, with its errors as command errors.

`send_command` creates the Command objects with which vcctl suspends, resumes, opens and closes.
"""

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from volcanoio.cli.terminal import CommandError, ExitCode
from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, Forbidden, Invalid, Unauthorized
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import ConfigError, environment_paths, from_files, in_cluster
from volcanoio.kube.transport import NoCredentials, RequestOptions, Response, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind, owner_reference

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


_WARNING = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')
"""A Warning header in the form that API servers send (RFC 7234, section 5.5)."""


def warning_text(header: str) -> str:
    """Return the text of a Warning header; "" if it is not an API server's."""
    found = _WARNING.match(header)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else ""


class _WarningTransport(HttpTransport):
    """Transport that prints the warnings in responses to stderr, as kubectl does."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        response = await super().request(method, path, **options)
        for name, value in response.headers.items():  # repeated headers occur repeatedly
            if name.lower() == "warning" and (text := warning_text(value)):
                print(f"Warning: {text}", file=sys.stderr)
        return response


@asynccontextmanager
async def connected(kubeconfig: Path | None, master: str = "") -> AsyncIterator[Client]:
    """Connect to the cluster, in a pod without kubeconfig by its service account.

    Raises CommandError if there is no configuration.
    """
    if master and not master.startswith(("http://", "https://")):
        raise CommandError(f'--master: "{master}" is not an http(s) URL; write for instance https://127.0.0.1:6443')
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
        connection = in_cluster() if is_pod else await from_files(paths)
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    transport = _WarningTransport(replace(connection, server=master) if master else connection)
    try:
        yield Client(transport)
    finally:
        await transport.aclose()


@contextmanager
def reporting_api_errors() -> Iterator[None]:
    """Convert API errors and lost connections to CommandErrors."""
    try:
        yield
    except (Forbidden, Invalid) as error:
        raise CommandError(error.message, ExitCode.REJECTED) from None
    except Unauthorized:
        raise CommandError(_UNAUTHORIZED, ExitCode.REJECTED) from None
    except ApiError as error:
        raise CommandError(error.message) from None
    except NoCredentials as error:
        raise CommandError(str(error), ExitCode.REJECTED) from None
    except TransportError as error:
        msg = f"cannot reach the API server: {error}; is it running? start one with `volcanoio up`"
        raise CommandError(msg, ExitCode.UNREACHABLE) from None


async def send_command(client: Client, kind: Kind, target: ApiObject, action: str, namespace: str) -> None:
    """Create a Command that requests `action` on the target; the controller deletes it once it has read it."""
    meta = target.metadata
    reference = owner_reference(kind, target)
    owners = [reference] if not kind.namespaced or namespace == meta.namespace else []
    await client.create(
        kinds.COMMAND,
        {
            "apiVersion": kinds.COMMAND.api_version,
            "kind": "Command",
            "metadata": {
                "generateName": f"{meta.name}-{action.lower()}-",
                "namespace": namespace,
                "ownerReferences": owners,
            },
            "action": action,
            "target": reference,
        },
    )
