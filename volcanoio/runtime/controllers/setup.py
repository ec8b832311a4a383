"""Selection of the controllers of a process by Volcano's `--controllers` list, and their construction."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.controller import Controller, ControllerContext, Input, Reference, Rule
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading.registry import PluginError, Registry

_LOG = structlog.get_logger(__name__)
DEFAULT_CONTROLLERS = ("*", "-sharding-controller")
"""Controllers that run by default, as in Volcano."""
VOLCANO_NAMES = (
    "colocation-config-controller", "cronjob-controller", "gc-controller", "hyperNode-controller", "job-controller",
    "jobflow-controller", "jobtemplate-controller", "pg-controller", "queue-controller", "sharding-controller",
)  # fmt: skip
"""Names that are accepted even if we have no such controller, so that Volcano's command lines keep working."""
_DECLARED: Mapping[str, tuple[type, str]] = {
    "inputs": (Input, "the kinds it watches, its own first"),
    "references": (Reference, "the kinds it only looks up"),
    "rules": (Rule, "the RBAC it needs"),
}


def select_controllers(entries: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the sorted names of `known` that a list of `*`, `name`, `+name` and `-name` selects; all if it is empty.

    Raises PluginError for a repeated name (with any sign), an unknown name and a list that selects nothing.
    """
    signs: dict[str, bool] = {}
    for entry in filter(None, map(str.strip, entries)):
        name = entry.removeprefix("-" if entry.startswith("-") else "+")
        if name in signs:
            raise PluginError(f'--controllers: "{name}" is given twice; name each controller once')
        if name != "*" and name not in known and name not in VOLCANO_NAMES:
            msg = f'--controllers: there is no controller "{name}"{suggestion(name, sorted({*known, *VOLCANO_NAMES}))}'
            raise PluginError(msg)
        signs[name] = not entry.startswith("-")
    everything = signs.get("*", not signs)
    names = tuple(sorted(name for name in known if signs.get(name, everything)))
    if not names:
        raise PluginError("--controllers: nothing is left to run; begin the list with * to run all but those after a -")
    return names


def make_controllers(
    registry: Registry, names: Iterable[str], context: ControllerContext
) -> tuple[Controller[Any], ...]:
    """Construct controllers by name, sorted; one whose constructor raises is logged and skipped.

    Raises PluginError for an invalid job plugin.
    """
    context = replace(context, job_plugins=registry.factories(entrypoints.JOB_PLUGINS))
    made: list[Controller[Any]] = []
    types = {kind.resource: kind.type for kind in kinds.ALL}
    for name in sorted(names):
        try:
            factory = registry.get(entrypoints.CONTROLLERS, name).factory
            controller: Controller[Any] = factory(context) if inspect.signature(factory).parameters else factory()
            wrong = controller_problems(controller, name, types)
        except Exception as error:  # constructors of third parties may raise anything
            reason = str(error) if isinstance(error, PluginError) else repr(error)
            _LOG.error("a controller is left out", controller=name, error=reason)
            continue
        if wrong:
            _LOG.error("a controller is left out", controller=name, error="it " + "; it ".join(wrong))
            continue
        types |= {kind.resource: kind.type for kind in kinds_of(controller) if kind.type is not ApiObject}
        made.append(controller)
    return tuple(made)


def controller_problems(controller: Any, name: str, types: dict[str, type[ApiObject]]) -> list[str]:
    """Return the reasons why an instance cannot run, one sentence each. `types` are the Structs of known resources."""
    wrong = [f'calls itself "{controller.name}"; register it under that name'] * (controller.name != name)
    for attribute, (wanted, reason) in _DECLARED.items():
        declared = getattr(controller, attribute, None)
        if not isinstance(declared, tuple) or not all(isinstance(each, wanted) for each in declared):
            wrong.append(f"has no {attribute}; give it a tuple of {wanted.__name__}: {reason}")
    if not wrong and not controller.inputs:
        wrong.append("watches nothing; give it at least one Input, its own kind first")
    if wrong:
        return wrong
    return [
        f"reads {kind.resource} as {kind.type.__name__}, others here as {types[kind.resource].__name__}; use theirs"
        for kind in kinds_of(controller)
        if kind.type not in (ApiObject, types.get(kind.resource, kind.type))
    ]


def kinds_of(*controllers: Controller[Any]) -> list[Kind]:
    """Return the kinds that controllers watch or look up, each resource once.

    A kind has its Struct if any of the controllers reads more than metadata.
    """
    found: dict[str, Kind] = {}
    for controller in controllers:
        declared = [*(each.kind for each in controller.inputs), *(each.kind for each in controller.references)]
        for kind in declared:
            if kind.resource not in found or kind.type is not ApiObject:
                found[kind.resource] = kind
    return list(found.values())


def known_kinds(controllers: Iterable[Controller[Any]]) -> list[Kind]:
    """Return the kinds that effects and journals of a process may contain: ours, and those of its controllers."""
    return [*kinds.ALL, *(kind for kind in kinds_of(*controllers) if kind.resource not in kinds.BY_RESOURCE)]


def informer_selectors(controllers: Sequence[Controller[Any]], indexes: Iterable[Kind]) -> dict[Kind, tuple[str, str]]:
    """Return label and field selectors of each kind: the declared ones if all inputs agree, else none.

    An event contains a resource, but neither selectors nor a Struct, so each resource has one informer; `Input.keys`
    filters further.
    """
    wanted: dict[str, set[tuple[str, str]]] = {}
    for controller in controllers:
        for declared in controller.inputs:
            selectors = wanted.setdefault(declared.kind.resource, set())
            selectors.add((declared.label_selector, declared.field_selector))
        for reference in controller.references:
            wanted.setdefault(reference.kind.resource, set()).add(("", ""))
    one = {kind.resource: kind for kind in kinds_of(*controllers)}
    for kind in indexes:
        wanted.setdefault(kind.resource, set()).add(("", ""))
        one[kind.resource] = kind
    return {
        one[resource]: next(iter(selectors)) if len(selectors) == 1 else ("", "")
        for resource, selectors in wanted.items()
    }
