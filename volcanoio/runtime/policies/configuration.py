"""The controllers' configuration file, `volcano-controller.conf`: which lifecycle policies are asked, in which order.

    policies:
    - name: declared
      enabled: true      # false: no job has it
      jobs: all          # named: only jobs whose annotation names it
      inline: true       # answer on the main loop, for a policy known to be quick; else it has a thread
      arguments: {}

No file, or no `policies`, means: `declared` alone, inline. The section `networkTopologyDiscovery` is read by
`engine.hypernodes.configuration`. A pure function over the text; files are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanoio.engine.hypernodes.configuration import SECTION as DISCOVERY
from volcanoio.engine.hypernodes.configuration import read_sources
from volcanoio.engine.scheduling.config.yaml_nodes import Problem, Reader, Value
from volcanoio.framework.arguments import suggestion
from volcanoio.model.nodes import DiscoverySource

CONTROLLER_CONFIGURATION = "volcano-controller.conf"
"""Name of the file in ConfigMaps and journals; callers that read it from a path add the path to errors."""
POLICIES = "policies"
SECTIONS = (POLICIES, DISCOVERY)
"""Keys of the file."""
_ALL, _NAMED = "all", "named"
_KEYS = ("name", "enabled", "jobs", "inline", "arguments")


class PolicySetting(msgspec.Struct, frozen=True):
    """Configuration of one policy; `line` is its position, 0 for a default.

    `everywhere`: every job has it, otherwise only jobs that name it. `inline`: it is quick enough to answer on the main
    loop.
    """

    name: str
    enabled: bool = True
    arguments: dict[str, Any] = {}
    line: int = 0
    everywhere: bool = True
    inline: bool = False


class ControllerConfiguration(msgspec.Struct, frozen=True):
    """The whole configuration file; `discovery` are the sources of HyperNodes."""

    policies: tuple[PolicySetting, ...] = (PolicySetting("declared", inline=True),)
    discovery: tuple[DiscoverySource, ...] = ()


class ConfigurationError(ValueError):
    """The file cannot take effect; one line per problem, each with line, rule and next step."""


def parse(text: str, policies: Collection[str]) -> ControllerConfiguration:
    """Parse the file; `policies` are the known names. Raises ConfigurationError."""
    configuration, problems = read(text, policies)
    if problems:
        raise ConfigurationError("\n".join(map(str, problems)))
    return configuration


def read(text: str, policies: Collection[str]) -> tuple[ControllerConfiguration, Sequence[Problem]]:
    """Return the valid part of the file, and all problems."""
    if is_empty(text):
        return ControllerConfiguration(), ()
    reader = Reader()
    root = reader.document(text, "policies:")
    sections = {} if root is None else root.mapping("the file", SECTIONS)
    configuration = ControllerConfiguration()
    if POLICIES in sections:
        configuration = replace(configuration, policies=_policies(sections[POLICIES], policies))
    if DISCOVERY in sections:
        configuration = replace(configuration, discovery=read_sources(sections[DISCOVERY]))
    return configuration, reader.problems


def is_empty(text: str) -> bool:
    """Return whether the text contains only blank lines, comments and document marks."""
    return all(line.strip() in ("", "---", "...") or line.lstrip().startswith("#") for line in text.splitlines())


def _policies(section: Value, known: Collection[str]) -> tuple[PolicySetting, ...]:
    settings: dict[str, PolicySetting] = {}
    for entry in section.items("policies"):
        values = entry.mapping("a policy", _KEYS)
        if "name" not in values:
            entry.problem("a policy needs a name", "; write - name: declared")
            continue
        name = values["name"].string("name")
        if name and name not in known:
            values["name"].problem(f'policy "{name}" is unknown', suggestion(name, sorted(known)))
        elif name in settings:
            values["name"].problem(f'policy "{name}" is given twice', "; keep one of them")
        enabled = values["enabled"].boolean("enabled", default=True) if "enabled" in values else True
        inline = values["inline"].boolean("inline", default=False) if "inline" in values else False
        jobs = values["jobs"].string("jobs") if "jobs" in values else _ALL
        if jobs and jobs not in (_ALL, _NAMED):
            values["jobs"].problem(f'jobs must be {_ALL} or {_NAMED}, not "{jobs}"', suggestion(jobs, (_ALL, _NAMED)))
        arguments = values["arguments"].plain_mapping("arguments")[0] if "arguments" in values else {}
        settings[name] = PolicySetting(name, enabled, arguments, entry.place.line, jobs != _NAMED, inline)
    return tuple(settings.values())
