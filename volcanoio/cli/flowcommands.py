"""The commands of `vcctl jobflow` and `vcctl jobtemplate`: the same five for both (volcano-sh/volcano cmd/cli)."""

from __future__ import annotations

from pathlib import Path

import click

from volcanoio.cli.vcctlframe import Group, cluster_flags, run_with_client

_name = click.option("--name", "-N", default="", help="Name of the object.")
_namespace = click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the object.")
_file = click.option("--file", "-f", type=click.Path(path_type=Path, readable=False), help="YAML file of objects.")
_form = click.option(
    "--output", "-o", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format."
)


@click.group(cls=Group)
def jobflow() -> None:
    """Create, list, get, describe and delete job flows."""


@click.group(cls=Group)
def jobtemplate() -> None:
    """Create, list, get, describe and delete job templates."""


def _add_commands(group: click.Group, word: str, title: str) -> None:
    """Give a group its commands; `word` is the kind's in flows.KINDS, `title` what help calls it."""

    @group.command("create", help=f"Create {title}s from a file.")
    @_file
    @cluster_flags
    def create(file: Path | None, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"create {word}", kubeconfig, master, flows.create, word, file)

    @group.command("list", help=f"List {title}s.")
    @_namespace
    @click.option("--all-namespaces", is_flag=True, help="List those of all namespaces.")
    @cluster_flags
    def listed(namespace: str, all_namespaces: bool, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        where = "" if all_namespaces else namespace
        run_with_client(f"list {word}", kubeconfig, master, flows.show_all, word, where)

    @group.command("get", help=f"Show one {title}.")
    @_name
    @_namespace
    @cluster_flags
    def get(name: str, namespace: str, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"get {word}", kubeconfig, master, flows.show, word, namespace, name)

    @group.command("describe", help=f"Print one {title}, or all of a namespace, whole.")
    @_name
    @_namespace
    @_form
    @cluster_flags
    def describe(name: str, namespace: str, form: str, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"describe {word}", kubeconfig, master, flows.describe, word, namespace, name, form)

    @group.command("delete", help=f"Delete one {title}, or those of a file.")
    @_name
    @_namespace
    @_file
    @cluster_flags
    def delete(name: str, namespace: str, file: Path | None, kubeconfig: Path | None, master: str) -> None:
        from volcanoio.cli import flows

        run_with_client(f"delete {word}", kubeconfig, master, flows.delete, word, namespace, name, file)


_add_commands(jobflow, "jobflow", "job flow")
_add_commands(jobtemplate, "jobtemplate", "job template")
