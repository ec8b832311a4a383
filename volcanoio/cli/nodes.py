"""`volcanoio node`: requests failures of simulated nodes through the API of any cluster that has some."""

from collections.abc import Sequence
from typing import Any

from volcanoio.cli.connection import reporting_api_errors
from volcanoio.cli.terminal import CommandError, UsageError, columns
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds, names, times
from volcanoio.model.core import Node, Pod
from volcanoio.model.node_failures import ChaosError, NodeFailures, parse_failures
from volcanoio.model.times import rfc3339

_HEADER = ("Name", "Status", "Pods", "CPU", "Memory", "Ephemeral-Storage", "Trouble")
_WIDTHS = (24, 28, 7, 8, 10, 20, 30)


async def show(client: Client) -> None:
    """Print all simulated nodes: their condition, their pods, and their planned failures."""
    with reporting_api_errors():
        nodes = [node for node in await client.list(kinds.NODE) if names.SIM_NODE in node.metadata.labels]
        pods = await client.list(kinds.POD)
    counts: dict[str, int] = {}
    for pod in pods:
        assert isinstance(pod, Pod)
        if pod.status.phase not in ("Succeeded", "Failed"):
            counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
    rows = []
    for node in nodes:
        assert isinstance(node, Node)
        offered = node.status.allocatable
        amounts = (offered.get(resource, "") for resource in ("cpu", "memory", "ephemeral-storage"))
        name = node.metadata.name
        rows.append((name, _status(node), counts.get(name, 0), *amounts, _trouble(node)))
    print(columns(_WIDTHS, _HEADER, rows) if rows else "No simulated nodes found")


def _status(node: Node) -> str:
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "Unknown")
    words = [{"True": "Ready", "False": "NotReady"}.get(ready, "NotReady (silent)")]
    return ",".join([*words, "SchedulingDisabled"] if node.spec.unschedulable else words)


def _trouble(node: Node) -> str:
    """Describe the failures that a node's annotations request."""
    try:
        expected = parse_failures(node.metadata.annotations, 0.0)
    except ChaosError as error:
        return str(error)
    return ", ".join(_words(expected)) or "-"


def _words(expected: NodeFailures) -> list[str]:
    never = NodeFailures()
    words = []
    if expected.fails_at != never.fails_at:
        until = "" if expected.back_at == never.back_at else f" until {rfc3339(expected.back_at)}"
        words.append(f"fails at {rfc3339(expected.fails_at)}{until}")
    if (flapping := expected.flapping) is not None:
        words.append(f"flaps: {flapping.down:g} s of every {flapping.every:g} s")
    if expected.drain_at != never.drain_at:
        words.append(f"drained at {rfc3339(expected.drain_at)}")
    return words


def failure_annotations(lasting: str | None) -> dict[str, str | None]:
    """Return the annotations of nodes that fail now, for a duration or until recovery; raises CommandError."""
    return {names.NODE_NOT_READY_AT: f"now,for={_duration('--for', lasting)}" if lasting else "now"}


def flap_annotations(every: str, down: str | None) -> dict[str, str | None]:
    """Return the annotations of nodes that fail and recover repeatedly; raises CommandError."""
    options = [f"every={_duration('--every', every)}", "from=now"]
    if down:
        options.append(f"down={_duration('--for', down)}")
        if times.parse_duration(down) >= times.parse_duration(every):
            raise UsageError(f"--for: {down} must be less than --every {every}: a node that flaps is up in between")
    return {names.NODE_FLAP: ",".join(options)}


RECOVERY_ANNOTATIONS: dict[str, str | None] = {names.NODE_NOT_READY_AT: None, names.NODE_FLAP: None}
"""The annotations of nodes without failures."""
DRAIN_ANNOTATIONS: dict[str, str | None] = {names.NODE_DRAIN: "now"}


async def annotate(client: Client, wanted: Sequence[str], annotations: dict[str, str | None], done: str) -> None:
    """Set these annotations on simulated nodes; raises CommandError before any change if a node is not simulated."""
    await _patch(client, wanted, {"metadata": {"annotations": annotations}}, done)


async def uncordon(client: Client, wanted: Sequence[str]) -> None:
    """Allow pods to be scheduled on nodes again."""
    change = {"spec": {"unschedulable": None}, "metadata": {"annotations": {names.NODE_DRAIN: None}}}
    await _patch(client, wanted, change, "uncordoned")


async def _patch(client: Client, wanted: Sequence[str], change: dict[str, Any], done: str) -> None:
    with reporting_api_errors():
        for name in wanted:
            await _check(client, name)
        for name in wanted:
            await client.patch(kinds.NODE, name, change)
            print(f"node/{name} {done}")


async def _check(client: Client, name: str) -> None:
    try:
        node = await client.get(kinds.NODE, name)
    except NotFound:
        known = [each.metadata.name for each in await client.list(kinds.NODE)]
        some = ", ".join(known[:5]) + (" …" if len(known) > 5 else "")
        msg = f'there is no node "{name}"; {f"there are: {some}" if known else "the cluster has none"}'
        raise CommandError(msg) from None
    if names.SIM_NODE not in node.metadata.labels:
        raise CommandError(
            f'node "{name}" is not a simulated one (it has no label {names.SIM_NODE}), so no component acts on this; '
            f"use kubectl for real nodes"
        )


def _duration(flag: str, text: str) -> str:
    try:
        if times.parse_duration(text) <= 0:
            raise ValueError(f"{text!r} must be more than 0")
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    return text
