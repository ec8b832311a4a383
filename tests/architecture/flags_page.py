"""The tables of docs/flags.md; `python -m tests.architecture.flags_page` writes them from the table of flags."""

from __future__ import annotations

from collections.abc import Iterable

from tests.architecture.generated_tables import with_tables
from tests.architecture.measure import ROOT
from volcanoio.cli.componentflags import Flag, flags_of

PAGE = ROOT / "docs/flags.md"
COMMANDS = {
    "scheduler": "`volcanoio scheduler`, `vc-scheduler`",
    "controllers": "`volcanoio controllers`, `vc-controller-manager`",
    "webhooks": "`volcanoio webhooks`, `vc-webhook-manager`",
    "hollow-nodes": "`volcanoio hollow-nodes`",
}


def row(flag: Flag, command: str) -> str:
    """Return the line of one flag."""
    default = "required" if flag.is_required else flag.default_of(command) and f"`{flag.default_of(command)}`"
    kind = flag.kind.metavar.replace("|", " or ")
    return f"| `--{flag.name}` | {kind} | {default} | {flag.text or flag.without_effect} |\n"


def _table(flags: Iterable[Flag], command: str, last: str) -> str:
    return f"\n| Flag | Value | Default | {last} |\n|---|---|---|---|\n" + "".join(row(flag, command) for flag in flags)


def tables() -> str:
    """Return the tables of each command: flags with an effect, and those that are only accepted."""
    text = ""
    for command, title in COMMANDS.items():
        flags = flags_of(command)
        text += f"\n## {title}\n" + _table([flag for flag in flags if not flag.without_effect], command, "Meaning")
        if without := [flag for flag in flags if flag.without_effect]:
            text += "\nAccepted without effect:\n" + _table(without, command, "Why")
    return text + "\n"


def written() -> str:
    """Return the page with the current tables."""
    return with_tables(PAGE, tables())


if __name__ == "__main__":
    PAGE.write_text(written())
