"""`volcanoio config show` and `config diff`: what a scheduler configuration does, with every default written out.

Two texts have the same effect if they have the same actions and tiers of plugins, each with the same arguments and the
same switches of extension points that the plugin has. Defaults of arguments come from the plugins themselves, which are
constructed for that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.offline.state_source import command_errors
from volcanoio.cli.output import formatted, yaml_text
from volcanoio.cli.terminal import ExitCode, UsageError
from volcanoio.compose.live.reading import installed_configuration
from volcanoio.engine.scheduling.config.config_maps import excerpts
from volcanoio.engine.scheduling.config.configuration import Configuration, PluginOption, default_text
from volcanoio.engine.scheduling.config.metric_section import metrics_section
from volcanoio.framework.arguments import GoDuration, recorded_arguments
from volcanoio.framework.scheduling import points
from volcanoio.model.documents import read_text
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.policies.lint import is_controller_configuration
from volcanoio.runtime.scheduler.setup import PluginCatalog, Setup

CLUSTER, DEFAULT = "cluster", "default"
"""Names of the configuration of the cluster's scheduler, and of the one that is used without a file."""

Effect = dict[str, Any]


class Options(NamedTuple):
    """Options of both commands: where plugins are, whether missing ones are errors, and the cluster."""

    plugins_dir: tuple[Path, ...] = ()
    ignore_unavailable: bool = False
    kubeconfig: Path | None = None


def effects(sources: Sequence[str], options: Options) -> list[Effect]:
    """Return what the configurations of these sources do: `cluster`, `default`, `-` for stdin, or files.

    A file may also be a manifest of a ConfigMap that contains one. Raises CommandError with all problems.
    """
    with command_errors(None):
        known = PluginCatalog.of(
            discover(plugins_dirs=options.plugins_dir), ignore_unavailable=options.ignore_unavailable
        )
    installed = anyio.run(_of_cluster, options.kubeconfig) if CLUSTER in sources else ""
    result = []
    for source in sources:
        text = {CLUSTER: installed, DEFAULT: default_text()}.get(source) or _read(source)
        with command_errors(Path(source)):
            configuration = Setup.make(text, known).configuration
        for problem in configuration.warnings:
            print(f"warning: {source}: {problem}", file=sys.stderr)
        result.append(_effect(configuration, known))
    return result


async def _of_cluster(kubeconfig: Path | None) -> str:
    async with connected(kubeconfig) as client:
        with reporting_api_errors():
            text, remarks = await installed_configuration(client)
    for remark in remarks:
        print(f"note: {remark.partition('; name')[0]}", file=sys.stderr)
    return default_text() if text is None else text


def _read(source: str) -> str:
    try:
        text = sys.stdin.read() if source == "-" else read_text(Path(source))
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}; give a file, -, {CLUSTER} or {DEFAULT}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not UTF-8 text; give a YAML file") from None
    inside = excerpts(text)
    found = [text] if inside is None else [each.text for each in inside]
    for each in found:
        if not is_controller_configuration(each):
            return each
    raise UsageError(f"{source}: no scheduler configuration here; give one such as volcano-scheduler.conf")


def _effect(configuration: Configuration, known: PluginCatalog) -> Effect:
    tiers = [{"plugins": [_plugin(option, known) for option in tier.plugins]} for tier in configuration.tiers]
    result: Effect = {"actions": ", ".join(configuration.actions), "tiers": tiers}
    actions = []
    for name in configuration.actions:
        option = configuration.configurations.get(name)
        _, arguments = _constructed(known.actions[name], option.arguments if option else {})
        if arguments:
            actions.append({"name": name, "arguments": arguments})
    if actions:
        result["configurations"] = actions
    if configuration.metrics is not None:
        result["metrics"] = metrics_section(configuration.metrics)
    return result


def _plugin(option: PluginOption, known: PluginCatalog) -> Effect:
    """Return a plugin's entry: the switches of its extension points, and its arguments."""
    plugin, arguments = _constructed(known.plugins[option.name], option.arguments)
    gates = {**points.SWITCHES, "enableHierarchy": (points.Hierarchical,)}
    switches = {
        key: option.switches[key]
        for key, gated in gates.items()
        if key in option.switches and any(points.implements(plugin, point) for point in gated)
    }
    return {"name": option.name, **switches, **({"arguments": arguments} if arguments else {})}


def _constructed(factory: Callable[[Mapping[str, Any]], Any], given: Mapping[str, Any]) -> tuple[Any, Effect]:
    """Return what the factory constructs, and all its arguments: those with defaults, and others that are given."""
    with recorded_arguments() as found:
        constructed = factory(given)
    arguments = {
        field.encode_name: _plain(getattr(each, field.name)) for each in found for field in msgspec.structs.fields(each)
    }
    return constructed, arguments | {key: value for key, value in given.items() if key not in arguments}


def _plain(value: Any) -> Any:
    return f"{value:g}s" if isinstance(value, GoDuration) else msgspec.to_builtins(value)


def show(found: Effect, output: str) -> None:
    """Print an effect as a configuration file, or as JSON."""
    if output == "json":
        print(formatted(found, "json"))
        return
    print(yaml_text(found, sort_keys=False))


class Change(NamedTuple):
    """One difference: what it is about, and the values of both; None where one does not have it."""

    subject: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """Return the line that `config diff` prints."""
        if self.before is None:
            return f"+ {self.subject}{_value(self.after)}"
        if self.after is None:
            return f"- {self.subject}{_value(self.before)}"
        return f"~ {self.subject}{_value(self.before)} -> {_value(self.after).removeprefix(': ')}"


def _value(value: Any) -> str:
    if value is True or value is False:
        return f": {str(value).lower()}"
    return "" if value == {} else f": {value}"


def differences(before: Effect, after: Effect) -> list[Change]:
    """Return what differs in effect."""
    return [*_fields("", _sections(before), _sections(after))]


def _sections(found: Effect) -> Effect:
    """Return an effect as one mapping: order of actions and plugins, and what belongs to each by name."""
    sections: Effect = {"actions": found["actions"]}
    for number, tier in enumerate(found["tiers"], start=1):
        sections[f"order of tier {number}"] = ", ".join(plugin["name"] for plugin in tier["plugins"])
        for plugin in tier["plugins"]:
            sections[f"plugin {plugin['name']}"] = {key: value for key, value in plugin.items() if key != "name"}
    for action in found.get("configurations", ()):
        sections[f"action {action['name']}"] = {"arguments": action["arguments"]}
    if "metrics" in found:
        sections["metrics"] = found["metrics"]
    return sections


def _fields(subject: str, before: Effect, after: Effect) -> Iterator[Change]:
    for key in (*before, *(key for key in after if key not in before)):
        name = f"{subject} {key}".strip()
        one, other = before.get(key), after.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _fields(
                "" if key == "arguments" and not subject else name.removesuffix(" arguments"), one, other
            )
        elif one != other:
            yield Change(name, {} if isinstance(one, dict) else one, {} if isinstance(other, dict) else other)


def show_differences(before: Effect, after: Effect, output: str) -> int:
    """Print what differs; returns exit code 1 if anything does."""
    found = differences(before, after)
    if output == "json":
        print(formatted([each._asdict() for each in found], "json"))
    else:
        for each in found:
            print(each)
        if not found:
            print("the same effect")
    return ExitCode.JOB_FAILED if found else ExitCode.OK
