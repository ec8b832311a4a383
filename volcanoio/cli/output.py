"""Options and output that all commands about a cluster share: kubectl's flags, tables, JSON, YAML, names and colours.

A command is a click declaration and a coroutine that gets the cluster and prints:

    @click.command(short_help="Show one job.")
    @click.argument("job")
    @output_choice("json", "yaml", "name", default="text")
    @on_cluster()
    async def job(cluster: Cluster, job: str, output: str) -> int | None:
        from volcanoio.cli.look.describing import show_job
        await show_job(cluster, job, output)

`on_cluster` is the last decorator. It adds --namespace, --all-namespaces, --kubeconfig, --context, --as and --as-group,
connects, and raises API errors as CommandErrors with the exit codes of `terminal.ExitCode`. Data goes to stdout through
`TablePrinter` or `documents`, remarks go to stderr. Ages and durations are those of `volcanoio.model.printing.ages`.

Only click, anyio and the standard library are imported, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TextIO

import anyio
import click

from volcanoio.cli.completion import names_of
from volcanoio.cli.terminal import PATH, Decorator, ExitCode, columns

if TYPE_CHECKING:
    from volcanoio.model.base import Manifest
    from volcanoio.model.kinds import Kind

GAP = 3
"""Blanks between two columns, as kubectl has them."""
NO_RESOURCES = "No resources found"


class Duration(click.ParamType[float]):
    """A Go duration such as 90s, 10m or 1h30m, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; fails with the rule."""
        from volcanoio.model.times import parse_duration

        if not isinstance(value, str):
            return float(value)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def output_choice(*formats: str, default: str = "table") -> Decorator:
    """Return option -o with these formats and the default one, which the help does not list."""
    valid = "|".join(formats)
    return click.option(
        "-o",
        "--output",
        type=click.Choice([default, *formats]),
        default=default,
        show_default=False,
        metavar=valid,
        help=f"Format: {', '.join(formats)}; by default {default}.",
    )


output_option = output_choice("json", "yaml", "name", "wide")
"""Option -o of commands that list objects."""
watch_option = click.option("-w", "--watch", is_flag=True, help="Print changes until Ctrl-C.")


def selector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l and --field-selector, which the API server evaluates."""
    fields = click.option(
        "--field-selector",
        default="",
        show_default=False,
        metavar="FIELDS",
        help="Only objects with these fields, as metadata.name=a.",
    )
    labels = click.option(
        "-l",
        "--selector",
        default="",
        show_default=False,
        metavar="LABELS",
        help="Only objects with these labels, as team=ml,tier!=test.",
    )
    return labels(fields(command))


_CONNECTION = (
    click.option(
        "--kubeconfig",
        type=PATH,
        help="The cluster; else $KUBECONFIG, ~/.kube/config, a local cluster's.",
    ),
    click.option("--context", default="", show_default=False, metavar="NAME", help="Context of the kubeconfig to use."),
    click.option("--as", "as_user", default="", show_default=False, metavar="USER", help="User to act as."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="Group to act as, with --as."),
)
_NAMESPACE = click.option(
    "-n",
    "--namespace",
    default="",
    show_default=False,
    metavar="NAME",
    shell_complete=names_of("namespace"),
    help="Namespace; by default that of the context.",
)
_EVERYWHERE = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Objects of all namespaces.")


def on_cluster(
    *, namespaced: bool = True, everywhere: bool = False
) -> Callable[[Callable[..., Awaitable[int | None]]], Callable[..., int]]:
    """Return a decorator that adds the options of a cluster to a coroutine, and runs it with a `connection.Cluster`.

    `namespaced` adds --namespace, `everywhere` --all-namespaces, with which `Cluster.namespace` is "". The coroutine
    returns its exit code, None for 0.
    """

    def decorate(body: Callable[..., Awaitable[int | None]]) -> Callable[..., int]:
        @wraps(body)
        def run(**given: Any) -> int:
            from volcanoio.cli.connection import Target, cluster_of

            target = Target(**{name: given.pop(name) for name in Target._fields if name in given})

            async def call() -> int | None:
                async with cluster_of(target) as cluster:
                    return await body(cluster, **given)

            return anyio.run(call) or ExitCode.OK

        command: Callable[..., Any] = run
        for option in reversed((*(_NAMESPACE,) * namespaced, *(_EVERYWHERE,) * everywhere, *_CONNECTION)):
            command = option(command)
        return command

    return decorate


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether stdout, or the given stream, is a terminal that can move its cursor."""
    shown = sys.stdout if stream is None else stream
    return shown.isatty() and os.environ.get("TERM") != "dumb"


def has_colour() -> bool:
    """Return whether stdout may have colours: it is a terminal, and NO_COLOR is empty (https://no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


_CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "bold": 1, "dim": 2}
PHASE_COLOURS = {
    "Pending": "yellow", "Inqueue": "yellow", "Running": "cyan", "Completed": "green", "Succeeded": "green",
    "Failed": "red", "Terminated": "red", "Aborted": "magenta", "Restarting": "magenta", "Unknown": "red",
    "Closed": "red", "Closing": "yellow", "NotReady": "red",
}  # fmt: skip
"""Colours of phases and states; others have none."""


class _Coloured(str):
    """Text with a colour; its length is that of the text, and padding is not coloured."""

    __slots__ = ("colour",)
    colour: int

    def __str__(self) -> str:
        return self

    def __format__(self, spec: str) -> str:
        plain = str.__str__(self)
        return f"\x1b[{self.colour}m{plain}\x1b[0m{format(plain, spec)[len(plain) :]}"


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour ("" for none) where stdout has colours; it keeps its length for columns."""
    if not colour or not text or not has_colour():
        return text
    result = _Coloured(text)
    result.colour = _CODES[colour]
    return result


def phase_text(phase: str) -> str:
    """Return a phase or state in its colour."""
    return coloured(phase, PHASE_COLOURS.get(phase, ""))


class TablePrinter:
    """Prints rows as columns; the first rows decide the widths, and longer cells later shift the rest.

    With output `wide`, the last `wide` columns of header and rows are shown, too.
    """

    def __init__(self, header: Sequence[str], *, output: str = "table", wide: int = 0) -> None:
        self._shown = len(header) if output == "wide" else len(header) - wide
        self._header = [coloured(name, "bold") for name in header[: self._shown]]
        self._widths: list[int] = []

    def print(self, rows: Sequence[Sequence[object]]) -> None:
        """Print rows, the first time below the header."""
        if not rows:
            return
        cells = [row[: self._shown] for row in rows]
        header: list[Sequence[object]] = []
        if not self._widths:
            header = [self._header]
            shown = (map(len, map(str, column)) for column in zip(self._header, *cells, strict=True))
            self._widths = [max(lengths) + GAP for lengths in shown]
        first, *rest = (*header, *cells)
        print(columns(self._widths, [str(cell) for cell in first], rest), flush=True)


def documents(kind: Kind, items: Iterable[Manifest], output: str, *, is_list: bool = True) -> str:
    """Return objects as kubectl prints them with -o json, yaml or name, without a final newline.

    json and yaml print a List unless `is_list` is False, which prints one object; `managedFields` are left out.
    """
    if output == "name":
        return "\n".join(object_name(kind, item) for item in items)
    found = [_shown(kind, item) for item in items]
    shown = {"apiVersion": "v1", "items": found, "kind": "List", "metadata": {"resourceVersion": ""}}
    return formatted(shown if is_list else found[0], output)


def object_name(kind: Kind, item: Manifest) -> str:
    """Return the name of an object as kubectl prints it, such as `queue.scheduling.volcano.sh/ml`."""
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.kind.lower()}{group}/{item['metadata'].get('name', '')}"


def _shown(kind: Kind, item: Manifest) -> Manifest:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def formatted(value: Any, output: str) -> str:
    """Return a value as JSON or YAML text, with sorted keys as kubectl prints them, without a final newline."""
    import msgspec

    if output == "json":
        return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=4).decode()
    return yaml_text(value)


def yaml_text(value: Any, *, sort_keys: bool = True) -> str:
    """Return a value as YAML in the style of kubectl, without a final newline.

    Texts of several lines are blocks, longer ones are folded at 80 columns, and what would be read as something else
    than a text has double quotes: compared with kubectl's output of a cluster and of CustomResourceDefinitions.
    """
    import yaml

    text = yaml.dump(value, Dumper=_kubectl_dumper(), allow_unicode=True, width=80, sort_keys=sort_keys)
    return str(text).rstrip("\n")


@cache
def _kubectl_dumper() -> Any:
    """Return a dumper that writes texts as sigs.k8s.io/yaml does."""
    import yaml

    tag = "tag:yaml.org,2002:str"
    texts = (tag, "tag:yaml.org,2002:yaml", "tag:yaml.org,2002:value")  # the others are of !, &, * and =

    def represent(dumper: Any, text: str) -> Any:
        style = None
        if "\n" in text:
            style = "|"
        elif text in ("y", "Y", "n", "N") or dumper.resolve(yaml.ScalarNode, text, (True, False)) not in texts:
            style = '"'
        return dumper.represent_scalar(tag, text, style=style)

    dumper = type("KubectlDumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    dumper.add_representer(str, represent)  # type: ignore[attr-defined]  # of the class that it is made of
    return dumper
