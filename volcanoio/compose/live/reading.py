"""What a scheduler reads, listed by a user: its configuration and the objects of the kinds that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, cast

from volcanoio.compose.state_files import State
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import ConfigMap
from volcanoio.model.kinds import Kind

NAMESPACE, CONFIG_MAP, KEY = "volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf"
"""Where an installed scheduler has its configuration."""
Item = TypeVar("Item")


class MissingRightsError(Exception):
    """The user may not list some kinds; the message is one line: which, and the next step."""


async def installed_configuration(client: Client) -> tuple[str | None, list[str]]:
    """Return the configuration of the installed scheduler, None for the default one, and a note if it is that."""
    return await configuration_at(client, NAMESPACE, CONFIG_MAP, KEY)


async def configuration_at(client: Client, namespace: str, name: str, key: str) -> tuple[str | None, list[str]]:
    """Return the configuration in a ConfigMap; None and a note where there is none."""
    try:
        found = await client.get(kinds.CONFIG_MAP, name, namespace)
        assert isinstance(found, ConfigMap)
        return found.data[key], []
    except (NotFound, KeyError):
        problem = f"no ConfigMap {namespace}/{name} with {key} here"
    except Forbidden:
        problem = f"you may not read ConfigMap {namespace}/{name}"
    return None, [f"{problem}: Volcano's default configuration is used; name another with --conf"]


async def cluster_state(client: Client, reads: Iterable[Kind]) -> State:
    """Return the objects of these kinds, and the Jobs. Raises MissingRightsError and ApiError."""
    objects = [obj for _, some in await list_kinds(reads, client.list) for obj in some]
    return State(objects=objects, jobs=await jobs_of(client))


async def jobs_of(client: Client, namespace: str = "") -> list[Job]:
    """Return the Jobs of a namespace, or of all; none if they may not be listed, as the scheduler needs none."""
    try:
        return cast("list[Job]", await client.list(kinds.JOB, namespace))
    except (Forbidden, NotFound):
        return []


async def list_kinds(
    reads: Iterable[Kind], read: Callable[[Kind], Awaitable[Sequence[Item]]]
) -> list[tuple[Kind, Sequence[Item]]]:
    """Return what `read` lists of each kind; kinds that the server does not have are left out.

    So are optional kinds that the user may not list, since a server may authorize requests for kinds it does not have.
    Raises MissingRightsError for kinds that the user may not list.
    """
    found, refused = list[tuple[Kind, Sequence[Item]]](), list[str]()
    for kind in sorted(reads, key=lambda kind: kind.resource):
        try:
            found.append((kind, await read(kind)))
        except NotFound:
            continue
        except Forbidden:
            if not kind.is_optional:
                refused.append(kind.resource)
    if refused:
        raise MissingRightsError(
            f"you may not list {', '.join(refused)} in all namespaces; ask an administrator for these rights, or for a "
            "file made with `volcanoio snapshot save`, and read that with -f"
        )
    return found
