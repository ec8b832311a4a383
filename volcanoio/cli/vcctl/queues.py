"""The commands about queues (volcano-sh/volcano pkg/cli/{queue,vqueues})."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from volcanoio.cli.connection import reporting_api_errors
from volcanoio.cli.terminal import CommandError
from volcanoio.cli.vcctl.cobra import format_row, note
from volcanoio.compose.live.commands import NoEffectError, RootQueueError, closed_parent, command_queue
from volcanoio.engine.queues.members import queue_and_phase_of
from volcanoio.engine.queues.transitions import QueueAction
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupPhase, Queue

_COUNTED = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_STATUS = ("Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown")
_WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 8)
_PHASES = (
    PodGroupPhase.INQUEUE,
    PodGroupPhase.PENDING,
    PodGroupPhase.RUNNING,
    PodGroupPhase.UNKNOWN,
    PodGroupPhase.COMPLETED,
)
_ACTIONS = {"open": QueueAction.OPEN, "close": QueueAction.CLOSE}


async def create(client: Client, name: str, weight: int, state: str) -> None:
    """Create a queue. The controller sets its state: the API server drops the requested one."""
    queue = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight},
    }
    with reporting_api_errors():
        await client.create(kinds.QUEUE, queue)
    note(f"create queue {name} successfully")
    if state != "Open":
        note(f"it is created Open, not {state}; close it with: vcctl queue operate -n {name} -a close")


async def show_counted(client: Client, name: str | None) -> None:
    """Print one queue, or all for None, with PodGroups counted by phase."""
    if name == "":
        raise CommandError("name is mandatory to get the particular queue details")
    queues = await _queues(client, name)
    try:
        with reporting_api_errors():
            groups = await client.list(kinds.POD_GROUP)
    except CommandError as error:
        of = "podgroups" if name is None else f"podgroup for queue {name}"
        raise CommandError(f"failed to list {of} with err: {error}") from None
    with suppress(Forbidden, NotFound):  # not every Kubernetes serves them
        groups += await client.list(kinds.NATIVE_POD_GROUP)
    counts = Counter(map(queue_and_phase_of, groups))
    rows = [
        (*_columns(queue), queue.spec.parent, *(counts[queue.metadata.name, phase] for phase in _PHASES))
        for queue in queues
    ]
    _print_rows(_COUNTED, rows)


async def show_status(client: Client, name: str) -> None:
    """Print one queue, or all for "", with the counts of its status, as vqueues."""
    rows = []
    for queue in await _queues(client, name or None):
        status = queue.status
        rows.append((*_columns(queue), status.inqueue, status.pending, status.running, status.unknown))
    _print_rows(_STATUS, rows)


async def _queues(client: Client, name: str | None) -> list[Queue]:
    with reporting_api_errors():
        found = [await client.get(kinds.QUEUE, name)] if name else await client.list(kinds.QUEUE)
    return [queue for queue in found if isinstance(queue, Queue)]


def _columns(queue: Queue) -> tuple[object, ...]:
    return queue.metadata.name, queue.spec.weight, queue.status.state


def _print_rows(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        print("No resources found")
        return
    for row in (header, *rows):
        print(format_row(_WIDTHS[: len(header)], row))


async def operate(client: Client, name: str, action: str, weight: int) -> None:
    """Open or close a queue by a Command, or change its weight."""
    if not name:
        raise CommandError("queue name must be specified")
    if action == "update":
        await _update(client, name, weight)
    elif action in _ACTIONS:
        await _command(client, name, _ACTIONS[action])
    elif action:
        raise CommandError(f"action {action} invalid, valid actions are open, close and update")
    else:
        raise CommandError("action can not be null")


async def _update(client: Client, name: str, weight: int) -> None:
    if weight <= 0:
        msg = f"when update queue {name}, weight must be specified, the value must be greater than 0"
        raise CommandError(msg)
    with reporting_api_errors():
        before = await client.get(kinds.QUEUE, name)
        after = await client.patch(kinds.QUEUE, name, {"spec": {"weight": weight}})
    assert isinstance(before, Queue)
    stored = after["spec"]["weight"]
    changed = stored != before.spec.weight
    note(f"queue {name} now has weight {stored}" if changed else f"queue {name} has weight {stored}; nothing changed")


async def _command(client: Client, name: str, action: QueueAction) -> None:
    with reporting_api_errors():
        queue = await client.get(kinds.QUEUE, name)
        assert isinstance(queue, Queue)
        try:
            note(await command_queue(client, queue, action))
        except RootQueueError as error:
            raise CommandError(str(error)) from None
        except NoEffectError as error:
            note(f"{error}; nothing changed")
            return
        parent = await closed_parent(client, queue) if action is QueueAction.OPEN else ""
    if parent:
        note(f"it opens once its parent {parent} is open: vcctl queue operate -n {parent} -a open")


async def delete(client: Client, name: str) -> None:
    """Delete a queue."""
    if not name:
        raise CommandError("queue name must be specified")
    with reporting_api_errors():
        await client.delete(kinds.QUEUE, name)
    note(f"delete queue {name} successfully")
