"""The queue commands of vcctl (volcano-sh/volcano pkg/cli/queue)."""

from __future__ import annotations

from collections import Counter

from volcanoio.cli.commands import send_command
from volcanoio.cli.connection import explained
from volcanoio.cli.errors import CommandError
from volcanoio.cli.tables import columns
from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue

_HEADER = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 9)
_PHASES = (
    PodGroupPhase.INQUEUE,
    PodGroupPhase.PENDING,
    PodGroupPhase.RUNNING,
    PodGroupPhase.UNKNOWN,
    PodGroupPhase.COMPLETED,
)
_ACTIONS = {"open": "OpenQueue", "close": "CloseQueue"}


async def create(client: Client, name: str, weight: int, state: str) -> None:
    """Create a queue. Its state is the controller's to set, so only Open can be asked for."""
    if state != "Open":
        msg = f'--state: a queue is created Open, not "{state}"; close it with: vcctl queue operate -n {name} -a close'
        raise CommandError(msg)
    queue = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight},
    }
    with explained():
        await client.create(kinds.QUEUE, queue)


async def show(client: Client, name: str) -> None:
    """Print one queue, or all when `name` is empty, with PodGroups counted by phase."""
    with explained():
        queues = [await client.get(kinds.QUEUE, name)] if name else await client.list(kinds.QUEUE)
        groups = await client.list(kinds.POD_GROUP)
    counts: Counter[tuple[str, str]] = Counter()
    for group in groups:
        assert isinstance(group, PodGroup)
        counts[group.spec.queue, group.status.phase or PodGroupPhase.PENDING] += 1
    if not queues:
        print("No resources found")
        return
    rows = []
    for queue in queues:
        assert isinstance(queue, Queue)
        of_queue = [counts[queue.metadata.name, phase] for phase in _PHASES]
        rows.append((queue.metadata.name, queue.spec.weight, queue.status.state, queue.spec.parent, *of_queue))
    print(columns(_WIDTHS, _HEADER, rows))


async def operate(client: Client, name: str, action: str, weight: int) -> None:
    """Open or close a queue by a Command, or change its weight."""
    if action == "update":
        if weight <= 0:
            msg = "--weight: update needs a weight above 0; add -w N"
            raise CommandError(msg)
        with explained():
            await client.patch(kinds.QUEUE, name, {"spec": {"weight": weight}})
        return
    if action not in _ACTIONS:
        msg = f'--action: "{action}" is none of open, close, update'
        raise CommandError(msg)
    with explained():
        queue = await client.get(kinds.QUEUE, name)
        await send_command(client, kinds.QUEUE, queue, _ACTIONS[action], "default")


async def delete(client: Client, name: str) -> None:
    """Delete a queue."""
    with explained():
        await client.delete(kinds.QUEUE, name)
