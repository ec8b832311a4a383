"""`volcanoio config`: what is said about configurations before they are used, and what follows from them."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path, readable=False, allow_dash=True)


@click.group(short_help="Check configurations, and print what follows from them.")
def config() -> None:
    """Check configurations, and print what follows from them."""


@config.command("lint", short_help="Find what is wrong in a configuration; exit code 1 on errors.")
@click.argument("files", type=_PATH, nargs=-1, required=True, metavar="FILES")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or machines.",
)
@click.option("--plugins-dir", type=_PATH, multiple=True, help="Directory of scheduler plugins and actions.")
@click.option("--policies-dir", type=_PATH, multiple=True, help="Directory of policies.")
@click.option("--ignore-unavailable-plugins", is_flag=True, help="Warn of plugins that are not available yet.")
def lint_command(
    files: tuple[Path, ...],
    output: str,
    plugins_dir: tuple[Path, ...],
    policies_dir: tuple[Path, ...],
    ignore_unavailable_plugins: bool,
) -> int:
    """Find what is wrong in FILES (- is stdin): Volcano's scheduler configuration, the controllers', or a ConfigMap
    that holds one.

    Unknown keys, plugins, actions, policies and arguments, wrong types, plugins that contradict each other, and what
    has no effect; given together, files are checked against each other. The exit code is 1 when there are
    errors, 0 when there are warnings at most.
    """
    from volcanoio.cli.linting import run_lint

    return run_lint(files, output, plugins_dir, policies_dir, ignore_unavailable=ignore_unavailable_plugins)


@config.command("rbac", short_help="Print the ClusterRole that the controllers need.")
@click.option("--controllers-dir", type=_PATH, multiple=True, help="Directory of controllers.")
@click.option("--policies-dir", type=_PATH, multiple=True, help="Directory of policies.")
def rbac_command(controllers_dir: tuple[Path, ...], policies_dir: tuple[Path, ...]) -> int:
    """Print the ClusterRole that the installed controllers need, those of the directories included.

    It follows from what each controller declares.
    """
    from volcanoio.cli.errors import CommandError, ExitCode
    from volcanoio.compose.rbac import render
    from volcanoio.runtime.loading import PluginError, discover
    from volcanoio.runtime.mounted import MountError

    try:
        registry = discover(policies_dirs=policies_dir, controllers_dirs=controllers_dir)
        print(render(registry), end="")
    except (PluginError, MountError) as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    return ExitCode.OK
