"""The command group `volcanoio node`; what the commands do is in `nodes`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

if TYPE_CHECKING:
    from volcanoio.kube.client import Client

_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, readable=False),
    help="The cluster; else $KUBECONFIG, else .volcanoio/kubeconfig of a local `volcanoio up`.",
)
_NODES = click.argument("nodes", metavar="NODE...", nargs=-1, required=True)


@click.group(short_help="Have simulated nodes fail, flap and be drained.")
def node() -> None:
    """Have simulated nodes fail, flap and be drained; `list` shows them."""


@node.command("list")
@_KUBECONFIG
def list_nodes(kubeconfig: Path | None) -> None:
    """Show the simulated nodes and what is to befall them."""
    from volcanoio.cli import nodes as work

    _on_cluster(kubeconfig, work.show)


@node.command(short_help="Have nodes fall silent; their pods run on.")
@_NODES
@click.option("--for", "lasting", default="", metavar="DURATION", help="Come back after this time, such as 5m.")
@_KUBECONFIG
def fail(nodes: tuple[str, ...], lasting: str, kubeconfig: Path | None) -> None:
    """Have nodes fall silent: their pods run on, but nothing is heard of either."""
    from volcanoio.cli import nodes as work

    annotations = work.failing(lasting)
    _on_cluster(kubeconfig, lambda client: work.annotate(client, nodes, annotations, "fails"))


@node.command()
@_NODES
@_KUBECONFIG
def recover(nodes: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Bring nodes back that failed or flap."""
    from volcanoio.cli import nodes as work

    _on_cluster(kubeconfig, lambda client: work.annotate(client, nodes, work.RECOVERED, "recovers"))


@node.command()
@_NODES
@click.option("--every", required=True, metavar="DURATION", help="The time from one failure to the next, such as 2m.")
@click.option("--for", "down", default="", metavar="DURATION", help="How long each failure lasts; half of --every.")
@_KUBECONFIG
def flap(nodes: tuple[str, ...], every: str, down: str, kubeconfig: Path | None) -> None:
    """Have nodes fail and come back again and again, until `recover`."""
    from volcanoio.cli import nodes as work

    annotations = work.flapping(every, down)
    _on_cluster(kubeconfig, lambda client: work.annotate(client, nodes, annotations, "flaps"))


@node.command()
@_NODES
@_KUBECONFIG
def drain(nodes: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Cordon nodes and evict their pods, as disruption budgets allow."""
    from volcanoio.cli import nodes as work

    _on_cluster(kubeconfig, lambda client: work.annotate(client, nodes, work.DRAINED, "drains"))


@node.command()
@_NODES
@_KUBECONFIG
def uncordon(nodes: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Let pods be scheduled on nodes again."""
    from volcanoio.cli import nodes as work

    _on_cluster(kubeconfig, lambda client: work.uncordon(client, nodes))


def _on_cluster(kubeconfig: Path | None, work: Callable[[Client], Awaitable[Any]]) -> None:
    """Do something with a client; without a kubeconfig the local cluster is meant, never somebody's own."""
    from volcanoio.cli.connection import LOCAL, connected

    async def run() -> None:
        chosen = kubeconfig or (None if os.environ.get("KUBECONFIG") else LOCAL)
        async with connected(chosen) as client:
            await work(client)

    anyio.run(run)
