"""Reference pages made from the product: objects from the definitions, commands from click, Python from docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from volcanoio import client
from volcanoio.cli.main import volcanoio
from volcanoio.cli.vcctl import tools
from volcanoio.cli.vcctl.commands import vcctl
from volcanoio.model.documents import load_yaml

ROOT = Path(__file__).parents[2]
PROGRAMS: Mapping[str, click.Command] = {
    "volcanoio": volcanoio, "vcctl": vcctl, "vsub": tools.vsub, "vjobs": tools.vjobs, "vqueues": tools.vqueues,
    "vcancel": tools.vcancel, "vsuspend": tools.vsuspend, "vresume": tools.vresume,
}  # fmt: skip
TEMPLATE = "template"
"""The field of a task that holds a pod template; its fields have a page of their own."""
JOB = "batch.volcano.sh_jobs.yaml"

Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    """The text of each page by its path below docs/."""
    made = {f"reference/commands-{name}.md": _commands(name, command) for name, command in PROGRAMS.items()}
    for path in sorted((ROOT / "config/crds").glob("*.yaml")):
        definition = load_yaml(path.read_text())
        made[f"reference/objects-{definition['spec']['names']['kind'].lower()}.md"] = _object(definition)
    made["reference/objects-podtemplate.md"] = _pod_template()
    made["reference/python.md"] = _python()
    return made


def _escaped(words: str) -> str:
    """Words in one line; outside backticks, what Markdown and tables take for marks is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(words.split()))
    return "".join(part if part.startswith("`") else re.sub(r"[|<*\[]", r"\\\g<0>", part) for part in parts)


def _cell(words: str) -> str:
    """The text of a cell between backticks, in which only bars are escaped."""
    return " ".join(words.split()).replace("|", "\\|")


def _schema(definition: Schema) -> Schema:
    found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def _object(definition: Schema) -> str:
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]["name"]
    short = ", ".join(f"`{each}`" for each in names.get("shortNames", ())) or "none"
    scope = "in a namespace" if spec["scope"] == "Namespaced" else "of the whole cluster"
    resource = f"resource `{names['plural']}`, short names: {short}"
    head = f"`apiVersion: {spec['group']}/{version}`, `kind: {names['kind']}`. An object {scope}; {resource}."
    lines = [f"# {names['kind']}", "", head, ""]
    for part in ("spec", "status"):
        fields = _schema(definition)["properties"].get(part)
        if fields:
            lines += [f"## {part}", "", *_fields(fields), ""]
    return "\n".join(lines)


def _pod_template() -> str:
    job = _schema(load_yaml((ROOT / "config/crds" / JOB).read_text()))
    template = job["properties"]["spec"]["properties"]["tasks"]["items"]["properties"][TEMPLATE]
    head = "The fields of a pod template, as in a Job's `spec.tasks[].template`. They are Kubernetes' own."
    return "\n".join(["# Pod template", "", head, "", *_fields(template, templates=True), ""])


def _fields(schema: Schema, depth: int = 0, *, templates: bool = False) -> Iterator[str]:
    """Yield a list entry for each field below a schema, depth first, those of a field below it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield f"{'  ' * depth}- `{name}` *{_type(field)}* {_escaped(_meaning(field, name in required))}".rstrip()
        inner = field
        while inner.get("type") == "array":
            inner = inner["items"]
        if isinstance(inner.get("additionalProperties"), Mapping):
            inner = inner["additionalProperties"]
        if name != TEMPLATE or templates:
            yield from _fields(inner, depth + 1, templates=templates)


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), Mapping):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("type", "any"))


def _meaning(field: Schema, required: bool) -> str:
    parts = ["Required." if required else "", field.get("description", "")]
    if "enum" in field:
        parts.append("Valid values: " + ", ".join(f"`{each}`" for each in field["enum"]) + ".")
    for key, word in (("default", "Default"), ("minimum", "At least"), ("maximum", "At most"), ("pattern", "Pattern")):
        if key in field:
            value = field[key]
            parts.append(f"{word}: `{str(value).lower() if isinstance(value, bool) else value}`.")
    rules = [rule["message"] for rule in field.get("x-kubernetes-validations", ()) if "message" in rule]
    parts += [f"Rule: {rule}." for rule in rules]
    return " ".join(part for part in parts if part)


def _commands(name: str, command: click.Command) -> str:
    lines = [
        f"# {name}",
        "",
        f"All commands of `{name}` with their options, as `{name} COMMAND --help` prints them.",
        "",
    ]
    for words, each, context in _tree([name], command, None):
        lines += [f"## {' '.join(words)}", ""] if len(words) > 1 else []
        lines += _command(each, context)
    return "\n".join(lines)


def _tree(
    words: list[str], command: click.Command, parent: click.Context | None
) -> Iterator[tuple[list[str], click.Command, click.Context]]:
    context = click.Context(command, info_name=words[-1], parent=parent)
    yield words, command, context
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _tree([*words, name], inner, context)


def _command(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = ["```text", f"{context.command_path} {usage}", "```", ""]
    if command.help:
        lines += [_paragraphs(command.help), ""]
    shown = [
        each for each in command.get_params(context) if isinstance(each, click.Option) and "--help" not in each.opts
    ]
    rows = [found for each in shown if (found := each.get_help_record(context)) is not None]
    if rows:
        lines += ["| Option | Meaning |", "|---|---|"]
        lines += [f"| `{_cell(option)}` | {_escaped(meaning)} |" for option, meaning in rows]
        lines.append("")
    return lines


def _paragraphs(text: str) -> str:
    """The help text as Markdown; paragraphs that click does not wrap are shown as they are."""
    parts = []
    for part in text.replace("\r\n", "\n").split("\n\n"):
        body = part.strip("\n")
        if body.lstrip().startswith("\b"):
            parts.append("```text\n" + body.replace("\b", "").strip("\n") + "\n```")
        else:
            parts.append(_escaped(body))
    return "\n\n".join(parts)


def _python() -> str:
    head = "All names of `volcanoio.client`; [Python client](../python-client.md) is the introduction."
    lines = ["# Python: volcanoio.client", "", head, ""]
    for name in client.__all__:
        value = getattr(client, name)
        lines += [f"## {name}", "", _paragraphs(inspect.getdoc(value) or ""), ""]
        fields = inspect.get_annotations(value)
        lines += [
            f"- `{field}`: `{inspect.formatannotation(kind)}`" for field, kind in fields.items() if field[0] != "_"
        ]
        lines += ["", *_methods(name, value)]
    return "\n".join(lines)


def _methods(name: str, value: type) -> Iterator[str]:
    """Yield the public methods and properties that a class has of its own."""
    for attribute, member in vars(value).items():
        if attribute.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        call = "" if isinstance(member, property) else str(inspect.signature(member))
        call = re.sub(r"(: |-> )'([^']*)'", r"\1\2", call).replace("(self, ", "(").replace("(self)", "()")
        yield from (f"### {name}.{attribute}", "", "```python", f"{attribute}{call}", "```", "")
        yield from (_paragraphs(inspect.getdoc(member) or ""), "")
