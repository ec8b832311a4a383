"""`volcanoio simulate`: what the scheduler would do with a cluster's state, without that cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_PATH = click.Path(path_type=Path, readable=False, allow_dash=True)


def _switch(name: str, default: bool, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A switch as Go writes it: --name, --name=true, --name=false."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value="true", default=default, show_default=True, help=text
    )


@click.command(short_help="Show what the scheduler would do with a cluster's state, offline.")
@click.option(
    "-f",
    "--filename",
    "files",
    type=_PATH,
    multiple=True,
    required=True,
    metavar="STATE",
    help="YAML or JSON as `kubectl get -A -o yaml` prints it; - is stdin, a directory all such files of it.",
)
@click.option("--conf", "--scheduler-conf", "conf", type=_PATH, help="The scheduler's configuration; else Volcano's.")
@click.option("--cycles", type=click.IntRange(min=1), default=1, show_default=True, help="Cycles to run.")
@click.option(
    "-o", "--output", type=click.Choice(["json", "table"]), default="table", show_default=True, help="What to print."
)
@click.option("--now", metavar="TIME", help="The time at which it is, as 2026-01-01T00:00:00Z; else that of the clock.")
@click.option(
    "--scheduler-name",
    multiple=True,
    default=("volcano",),
    show_default=True,
    help="Whose pods are placed; repeatable.",
)
@click.option("--default-queue", default="default", show_default=True, help="The queue of PodGroups that name none.")
@click.option("--schedule-period", default="1s", show_default=True, help="Time between two cycles.")
@_switch("--priority-class", True, "Whether PriorityClasses count.")
@_switch("--csi-storage", True, "Whether storage capacity counts.")
@click.option(
    "--node-selector",
    multiple=True,
    metavar="KEY:VALUE",
    help="Only nodes with one of these labels; several with commas.",
)
@click.option(
    "--ignored-provisioners",
    multiple=True,
    metavar="NAME",
    help="Provisioners whose volumes do not count; several with commas.",
)
@click.option(
    "--feature-gates", multiple=True, metavar="NAME=BOOL", help="Volcano's feature gates; several with commas."
)
@click.option("--minimum-feasible-nodes", type=int, help="Accepted: all nodes are looked at.")
@click.option("--minimum-percentage-nodes-to-find", type=int, help="Accepted: all nodes are looked at.")
@click.option("--percentage-nodes-to-find", type=int, help="Accepted: all nodes are looked at.")
@click.option(
    "--scheduler-sharding-mode", default="none", show_default=True, help="none; others are not available yet."
)
@click.option("--scheduler-sharding-name", default="volcano", show_default=True, help="The NodeShard to use.")
@click.option("--plugins-dir", type=_PATH, multiple=True, help="Directory of scheduler plugins.")
@_switch("--ignore-unavailable-plugins", False, "Leave out plugins and actions that are not available yet.")
def simulate(**given: Any) -> int:
    """Run scheduling cycles on a cluster's state from files and print what is decided.

    Nothing is sent anywhere. Binds, evictions and statuses come back as they would from a cluster without kubelets:
    a bound pod has its node and does not run, an evicted one is terminating for ever.
    """
    from volcanoio.cli.simulation import run_simulate

    return run_simulate(**given)
