"""Lint of the controllers' configuration: all errors, and settings without effect, each with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import yaml

from volcanoio.engine.scheduling.config.lint import Finding, Severity
from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.documents import load_yaml
from volcanoio.runtime.loading.registry import PluginError, Registry
from volcanoio.runtime.policies.calls import BoundedCall, OverrunError
from volcanoio.runtime.policies.configuration import SECTIONS, PolicySetting, is_empty, read
from volcanoio.runtime.policies.policy_set import LOAD_LIMIT, Member


def is_controller_configuration(text: str) -> bool:
    """Return whether a text configures controllers: it has one of their keys, also misspelt, and no `tiers`."""
    try:
        root = load_yaml(text)
    except yaml.YAMLError:
        return text.lstrip().startswith(tuple(f"{key}:" for key in SECTIONS))
    if not isinstance(root, dict) or {"tiers", "actions"} & root.keys():
        return False
    return any(difflib.get_close_matches(str(key), SECTIONS) for key in root)


def lint_empty(text: str, name: str) -> Finding | None:
    """Return the finding for an empty configuration, which contains the defaults that take effect.

    `name` is that of the file or the ConfigMap's key. Returns None for a text that is not empty.
    """
    if not is_empty(text):
        return None
    default = "the controllers ask the policy declared alone, as without a file"
    if "controller" in name:
        return Finding(Severity.WARNING, 1, 1, f"the file is empty: {default}", "write policies: [] to have none asked")
    refused = "a scheduler refuses it"
    scheduler = 'write actions: "enqueue, allocate, backfill" and tiers'
    if "scheduler" in name:
        return Finding(Severity.ERROR, 1, 1, f"the file is empty: {refused}", scheduler)
    advice = f"{scheduler} for a scheduler, policies: for the controllers"
    return Finding(Severity.ERROR, 1, 1, f"the file is empty: {refused}; {default}", advice)


def lint(text: str, registry: Registry, scheduler: frozenset[str] | None) -> tuple[Finding, ...]:
    """Return all findings in the order of lines; constructs the named policies.

    `scheduler` contains the plugins that are enabled in the scheduler, None if unknown.
    """
    configuration, problems = read(text, registry.names(entrypoints.LIFECYCLE_POLICIES))
    found = [Finding.of(Severity.ERROR, problem) for problem in problems]
    known = registry.names(entrypoints.LIFECYCLE_POLICIES)
    for setting in configuration.policies:
        if setting.enabled and setting.name in known:
            found += _lint_policy(setting, registry, scheduler)
    return tuple(sorted(set(found), key=lambda finding: finding[1:3]))


def _lint_policy(setting: PolicySetting, registry: Registry, scheduler: frozenset[str] | None) -> Iterator[Finding]:
    place = (setting.line, 3)

    def make() -> Member:
        return Member.of(registry.get(entrypoints.LIFECYCLE_POLICIES, setting.name).factory(dict(setting.arguments)))

    try:
        member = BoundedCall(make, f"policy {setting.name}").wait(LOAD_LIMIT)
    except ArgumentError as error:
        for fault in error.faults:
            yield Finding(Severity.ERROR, *place, fault.text)
        return
    except (PluginError, OverrunError) as error:
        yield Finding(Severity.ERROR, *place, f'policy "{setting.name}": {error}')
        return
    except BaseException as error:  # third-party code may raise anything
        yield Finding(
            Severity.ERROR, *place, f'policy "{setting.name}" cannot be made: {type(error).__name__}: {error}'
        )
        return
    for plugin in getattr(member.policy, "needs_scheduler_plugins", ()):
        text = f'policy "{setting.name}" has no effect unless the scheduler has its plugin {plugin}'
        if scheduler is None:
            advice = "lint the scheduler's configuration together with this one to have that checked"
            yield Finding(Severity.WARNING, *place, text, advice)
        elif plugin not in scheduler:
            yield Finding(Severity.WARNING, *place, f"{text}, which is off", f"add - name: {plugin} to a tier")
