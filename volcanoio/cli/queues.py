"""The queue commands of vcctl (volcano-sh/volcano pkg/cli/queue)."""

from collections import Counter

from volcanoio.cli.connection import reporting_api_errors, send_command
from volcanoio.cli.terminal import CommandError, columns
from volcanoio.engine.queues.transitions import ROOT_CLOSE_MESSAGE, QueueAction, is_satisfied
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds, names
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
_ACTIONS = {"open": (QueueAction.OPEN, "opened"), "close": (QueueAction.CLOSE, "closed")}


async def create(client: Client, name: str, weight: int, state: str) -> None:
    """Create a queue. The controller sets its state, so only Open may be requested."""
    if state != "Open":
        msg = f'--state: a queue is created Open, not "{state}"; close it with: vcctl queue operate -n {name} -a close'
        raise CommandError(msg)
    queue = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight},
    }
    with reporting_api_errors():
        await client.create(kinds.QUEUE, queue)
    print(f"create queue {name} successfully")


async def show(client: Client, name: str) -> None:
    """Print one queue, or all if `name` is empty, with PodGroups counted by phase."""
    with reporting_api_errors():
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
    """Open or close a queue by a Command, or change its weight; print the result."""
    if action == "update":
        await _update(client, name, weight)
    elif action in _ACTIONS:
        await _command(client, name, *_ACTIONS[action])
    else:
        raise CommandError(f'--action: "{action}" is not an action of queues; valid values: open, close, update')


async def _update(client: Client, name: str, weight: int) -> None:
    if weight <= 0:
        raise CommandError("--weight: update needs a weight above 0; add -w N")
    with reporting_api_errors():
        before = await client.get(kinds.QUEUE, name)
        after = await client.patch(kinds.QUEUE, name, {"spec": {"weight": weight}})
    assert isinstance(before, Queue)
    stored = after["spec"]["weight"]
    changed = stored != before.spec.weight
    print(f"queue {name} now has weight {stored}" if changed else f"queue {name} has weight {stored}; nothing changed")


async def _command(client: Client, name: str, action: QueueAction, done: str) -> None:
    if action is QueueAction.CLOSE and name == names.ROOT_QUEUE:
        raise CommandError(ROOT_CLOSE_MESSAGE)
    with reporting_api_errors():
        queue = await client.get(kinds.QUEUE, name)
        assert isinstance(queue, Queue)
        state = queue.status.state
        if is_satisfied(state, action):
            print(f"queue {name} is {state}; nothing changed")
            return
        await send_command(client, kinds.QUEUE, queue, action, "default")
        parent = await _closed_parent(client, queue) if action is QueueAction.OPEN else ""
    print(f"queue {name} is being {done}; it was {state or 'without a state'}")
    if parent:
        print(f"it opens once its parent {parent} is open: vcctl queue operate -n {parent} -a open")


async def _closed_parent(client: Client, queue: Queue) -> str:
    """Return the name of the closed parent that prevents a queue from opening; "" without one."""
    if queue.spec.parent in ("", names.ROOT_QUEUE):
        return ""
    try:
        parent = await client.get(kinds.QUEUE, queue.spec.parent)
    except NotFound:
        return ""
    assert isinstance(parent, Queue)
    return queue.spec.parent if is_satisfied(parent.status.state, QueueAction.CLOSE) else ""


async def delete(client: Client, name: str) -> None:
    """Delete a queue."""
    with reporting_api_errors():
        await client.delete(kinds.QUEUE, name)
    print(f"delete queue {name} successfully")
