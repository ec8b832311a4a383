"""`volcanoio config`: what is said about configurations of the scheduler before they are used."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path, readable=False, allow_dash=True)


@click.group(short_help="Check configurations of the scheduler.")
def config() -> None:
    """Check configurations of the scheduler."""


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
@click.option("--ignore-unavailable-plugins", is_flag=True, help="Warn of plugins that are not available yet.")
def lint_command(
    files: tuple[Path, ...], output: str, plugins_dir: tuple[Path, ...], ignore_unavailable_plugins: bool
) -> int:
    """Find what is wrong in FILES (- is stdin): Volcano's scheduler configuration, or a ConfigMap that holds one.

    Unknown keys, plugins, actions and arguments, wrong types, plugins that contradict each other, and what has no
    effect. The exit code is 1 when there are errors, 0 when there are warnings at most.
    """
    from volcanoio.cli.linting import run_lint

    return run_lint(files, output, plugins_dir, ignore_unavailable=ignore_unavailable_plugins)
