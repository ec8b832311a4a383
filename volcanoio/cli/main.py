"""`volcanoio`: start an embedded cluster, run the demo, and what later belongs to servers and operators."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from volcanoio import __version__
from volcanoio.cli.config import config
from volcanoio.cli.errors import CommandError, ExitCode, sole_error, speak_any_encoding
from volcanoio.cli.node import node
from volcanoio.cli.plugin import plugin
from volcanoio.cli.simulate import simulate
from volcanoio.cli.speed import Speed

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE)
"""What writing to stdout fails with when its disk is full, its terminal gone, or its reader."""


class _Root(click.Group):
    """The command group: turns CommandErrors into one line on stderr and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.Exit as stop:
            sys.exit(stop.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(ExitCode.USAGE)
        except (click.Abort, KeyboardInterrupt):
            print("stopped", file=sys.stderr)
            sys.exit(130)
        except (CommandError, OSError, BaseExceptionGroup) as error:
            problem = sole_error(error)
            if isinstance(problem, CommandError):
                print(f"volcanoio: {problem}", file=sys.stderr)
                sys.exit(problem.code)
            if not isinstance(problem, OSError) or problem.errno not in _UNWRITABLE:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered cannot be written either
            if problem.errno != errno.EPIPE:  # whose reader wants no more, as that of `| head`
                print(f"volcanoio: cannot write the output: {problem.strerror}; send it elsewhere", file=sys.stderr)
            sys.exit(ExitCode.JOB_FAILED)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="volcanoio %(version)s")
def volcanoio() -> None:
    """Volcano, the Kubernetes batch system, in one process: no cluster needed."""


@volcanoio.command()
def version() -> None:
    """Print the version."""
    print(f"volcanoio {__version__}")


_PATH = click.Path(path_type=Path, readable=False)
"""A path that the command itself tries to use: it says better than click what is wrong with it."""
_NODE_OPTIONS = (
    click.option(
        "--node-resources",
        default="cpu=8,memory=32Gi,pods=110",
        show_default=True,
        help="What each node offers, as NAME=QUANTITY[,NAME=QUANTITY...].",
    ),
    click.option(
        "--kubelet-lag",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="Seconds by which nodes see changes late.",
    ),
)
_CLUSTER_OPTIONS = (
    click.option("--nodes", type=click.IntRange(min=1), default=4, show_default=True, help="Simulated nodes."),
    *_NODE_OPTIONS,
    click.option(
        "--speed",
        type=Speed(),
        metavar="NUMBER|max",
        default="1",
        show_default=True,
        help="How fast the cluster's time runs: a number, or max to skip every wait.",
    ),
    click.option("--scheduler-conf", type=_PATH, help="Volcano's scheduler configuration."),
    click.option("--controller-conf", type=_PATH, help="Controller configuration (policies)."),
    click.option("--plugins-dir", type=_PATH, multiple=True, help="Directory of scheduler and job plugins."),
    click.option(
        "--ignore-unavailable-plugins",
        is_flag=True,
        help="Leave out scheduler plugins and actions of Volcano that are not available yet.",
    ),
    click.option("--policies-dir", type=_PATH, multiple=True, help="Directory of policies."),
    click.option("--controllers-dir", type=_PATH, multiple=True, help="Directory of controllers."),
    click.option(
        "--controllers",
        multiple=True,
        metavar="LIST",
        help="Controllers to run, separated by commas: * for all, NAME or +NAME for one, -NAME for all but it.",
    ),
    click.option(
        "--scheduler-name",
        multiple=True,
        default=("volcano",),
        show_default=True,
        help="Pods of this schedulerName are Volcano's; Jobs that say nothing get the first.",
    ),
    click.option(
        "--inherit-owner-annotations",
        type=bool,
        is_flag=False,
        flag_value=True,
        default=True,
        show_default=True,
        help="PodGroups of pods without a Job take volcano.sh/ annotations from the pods' owners.",
    ),
    click.option("--strict-admission", is_flag=True, help="Refuse what Volcano's newest admission refuses."),
    click.option("--journal", type=_PATH, help="Record events and decisions in this directory."),
    click.option("-v", "--verbose", count=True, help="Log more; twice for debugging."),
)


def _with(options: Sequence[Callable[..., Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that commands share, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_cluster_options = _with(_CLUSTER_OPTIONS)


@volcanoio.command(short_help="Run a whole cluster in this process until Ctrl-C.")
@_cluster_options
@click.option("--data", type=_PATH, default=Path(".volcanoio"), show_default=True, help="Data directory.")
@click.option("--memory", is_flag=True, help="Keep objects in memory only; --data then holds the kubeconfig alone.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port on 127.0.0.1; 0 takes a free one."
)
@click.option("--run", is_flag=True, help="Run the pods' commands as processes of yours on this machine.")
@click.option(
    "--run-image",
    multiple=True,
    metavar="IMAGE=COMMAND",
    help="With --run: what to run for an image without a command.",
)
def up(data: Path, memory: bool, port: int, verbose: int, **options: Any) -> int:
    """Run a whole cluster in this process until Ctrl-C: API server, nodes, controllers, scheduler, admission."""
    from volcanoio.cli.up import run_up

    return run_up(data=data, memory=memory, port=port, verbose=verbose, **options)


@volcanoio.command(short_help="Run the example jobs and show them live.")
@_cluster_options
@click.option("--examples", type=_PATH, help="A directory of manifests instead of ours.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Give up after this many seconds."
)
def demo(examples: Path | None, timeout: float, verbose: int, **options: Any) -> int:
    """Run the example jobs on an embedded cluster and show them live."""
    from volcanoio.cli.demo import run_demo

    return run_demo(examples=examples, timeout=timeout, verbose=verbose, **options)


@volcanoio.command("hollow-nodes", short_help="Serve simulated nodes to any cluster.")
@click.option("--kubeconfig", type=_PATH, help="The cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's.")
@click.option(
    "--count",
    type=click.IntRange(min=0),
    required=True,
    help="How many nodes; those of an earlier run beyond it are removed. 0 removes all and ends.",
)
@click.option("--prefix", default="hollow", show_default=True, help="Names are PREFIX-0 and up; one process a prefix.")
@_with(_NODE_OPTIONS)
@click.option("-v", "--verbose", count=True, help="Log more; twice for debugging.")
def hollow_nodes(kubeconfig: Path | None, verbose: int, **options: Any) -> int:
    """Serve simulated nodes to any cluster, until Ctrl-C: pods bound to them start, run and end as on our own."""
    from volcanoio.cli.hollow import run_hollow_nodes
    from volcanoio.compose.hollow import HollowOptions

    return run_hollow_nodes(kubeconfig, HollowOptions(**options), verbose)


volcanoio.add_command(node)
volcanoio.add_command(config)
volcanoio.add_command(plugin)
volcanoio.add_command(simulate)


def main() -> None:
    """Entry point."""
    speak_any_encoding()
    volcanoio()
