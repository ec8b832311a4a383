"""The controllers' configuration file, `volcano-controller.conf`: which lifecycle policies are asked, in which order.

    policies:
    - name: declared
      enabled: true
      arguments: {}

No file, or no `policies`, means: `declared` alone. A pure function over the text; files are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from volcanoio.engine.scheduling.yamlnodes import Reader, Value
from volcanoio.framework.arguments import suggestion

FILE = "volcano-controller.conf"
"""The name of the file, as errors and journals give it."""


class PolicySetting(msgspec.Struct, frozen=True):
    """One policy as configured; `line` is where, 0 for a default."""

    name: str
    enabled: bool = True
    arguments: dict[str, Any] = {}
    line: int = 0


class ControllerConfiguration(msgspec.Struct, frozen=True):
    """The whole file."""

    policies: tuple[PolicySetting, ...] = (PolicySetting("declared"),)


class ConfigurationError(ValueError):
    """A file that cannot take effect; one line a problem, each with line, rule and next step."""


def parse(text: str, policies: Collection[str], source: str = FILE) -> ControllerConfiguration:
    """Read the file; `policies` are the known names. Raises ConfigurationError, so that the last good one stays."""
    if all(line.strip() == "" or line.lstrip().startswith("#") for line in text.splitlines()):
        return ControllerConfiguration()
    reader = Reader()
    root = reader.document(text, "policies:")
    settings = None if root is None else _policies(root, policies)
    if reader.problems:
        raise ConfigurationError("\n".join(f"{source}: {problem}" for problem in reader.problems))
    return ControllerConfiguration() if settings is None else ControllerConfiguration(settings)


def _policies(root: Value, known: Collection[str]) -> tuple[PolicySetting, ...] | None:
    section = root.mapping("the file", ("policies",)).get("policies")
    if section is None:
        return None
    settings: dict[str, PolicySetting] = {}
    for entry in section.items("policies"):
        values = entry.mapping("a policy", ("name", "enabled", "arguments"))
        if "name" not in values:
            entry.problem("a policy needs a name", "; write - name: declared")
            continue
        name = values["name"].string("name")
        if name and name not in known:
            values["name"].problem(f'policy "{name}" is unknown', suggestion(name, sorted(known)))
        elif name in settings:
            values["name"].problem(f'policy "{name}" is given twice', "; keep one of them")
        enabled = values["enabled"].boolean("enabled", default=True) if "enabled" in values else True
        arguments = values["arguments"].plain_mapping("arguments")[0] if "arguments" in values else {}
        settings[name] = PolicySetting(name, enabled, arguments, entry.place.line)
    return tuple(settings.values())
