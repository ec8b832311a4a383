"""`volcanoio config lint`: reads files and prints their problems."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from volcanoio.cli.terminal import ExitCode, UsageError
from volcanoio.engine.scheduling.config.config_maps import KEYS, excerpts
from volcanoio.engine.scheduling.config.configuration import read
from volcanoio.engine.scheduling.config.lint import Finding, Severity, lint
from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import pluralize
from volcanoio.model.documents import read_text
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, Registry, discover
from volcanoio.runtime.policies import lint as policy_lint
from volcanoio.runtime.policies.configuration import is_empty


def run_lint(
    files: Sequence[Path],
    output: str,
    plugins_dir: Sequence[Path],
    policies_dir: Sequence[Path] = (),
    *,
    ignore_unavailable: bool,
) -> int:
    """Print the findings in files; returns an exit code that is 1 for errors. Raises CommandError."""
    try:
        registry = discover(plugins_dirs=plugins_dir, policies_dirs=policies_dir)
        known: dict[str, Any] = {
            "plugins": registry.factories(entrypoints.SCHEDULER_PLUGINS),
            "actions": registry.factories(entrypoints.ACTIONS),
            "ignore_unavailable": ignore_unavailable,
        }
    except (PluginError, MountError) as error:
        raise UsageError(error) from None
    texts = [(str(file), _text(file)) for file in files]
    scheduler = scheduler_plugins((text for _, text in texts), known["plugins"])
    found = [(file, each) for file, text in texts for each in findings(file, text, known, registry, scheduler)]
    if output == "json":
        print(
            msgspec.json.format(
                msgspec.json.encode([{"file": file, **each._asdict()} for file, each in found])
            ).decode()
        )
    else:
        for file, each in found:
            print(f"{file}:{each}")
    errors = sum(each.severity is Severity.ERROR for _, each in found)
    print(f"{pluralize(errors, 'error')}, {pluralize(len(found) - errors, 'warning')}", file=sys.stderr)
    return ExitCode.JOB_FAILED if errors else ExitCode.OK


def findings(
    file: str, text: str, known: Mapping[str, Any], registry: Registry, scheduler: frozenset[str] | None
) -> list[Finding]:
    """Return the findings in a file's text: a configuration, or a manifest with ConfigMaps that contain some.

    `scheduler` contains the plugins that are enabled in the files' scheduler configurations, None without any.
    """

    def checked(name: str, configuration: str) -> Sequence[Finding]:
        if nothing := policy_lint.lint_empty(configuration, name):
            return (nothing,)
        if policy_lint.is_controller_configuration(configuration):
            return policy_lint.lint(configuration, registry, scheduler)
        return lint(configuration, **known)

    if (inside := excerpts(text)) is None:
        return list(checked(Path(file).name, text))
    if not inside:
        return [
            Finding(
                Severity.ERROR, 1, 1, f"no ConfigMap here has a key {' or '.join(KEYS)}", "give a file that holds one"
            )
        ]
    return [
        each._replace(line=place.line, column=place.column)
        for excerpt in inside
        for each in checked(excerpt.key, excerpt.text)
        for place in [excerpt.place(each.line, each.column)]
    ]


def scheduler_plugins(texts: Iterable[str], known: Collection[str]) -> frozenset[str] | None:
    """Return the `known` plugins that scheduler configurations in the files enable; None if there is no such file."""
    named: set[str] | None = None
    for text in texts:
        inside = excerpts(text)
        for configuration in [text] if inside is None else [excerpt.text for excerpt in inside]:
            if not (is_empty(configuration) or policy_lint.is_controller_configuration(configuration)):
                read_so_far, _ = read(configuration, actions=(), plugins=known)
                named = (named or set()) | {option.name for tier in read_so_far.tiers for option in tier.plugins}
    return None if named is None else frozenset(named)


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else read_text(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8 text; give a YAML file") from None
