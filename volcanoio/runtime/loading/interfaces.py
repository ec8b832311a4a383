"""Checks that a class implements the interface of its group, made when it is loaded rather than during a cycle."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from volcanoio.framework import entrypoints
from volcanoio.framework.jobs import JobPlugin
from volcanoio.framework.scheduling import points

NOUNS: Mapping[str, str] = {
    entrypoints.SCHEDULER_PLUGINS: "scheduler plugin",
    entrypoints.ACTIONS: "action",
    entrypoints.JOB_PLUGINS: "job plugin",
    entrypoints.LIFECYCLE_POLICIES: "lifecycle policy",
    entrypoints.CONTROLLERS: "controller",
}
"""Name in messages for one member of each group."""

_JOB_PLUGIN = {"problems": ("job",), "owned_objects": ("job",), "on_pod_create": ("pod", "job", "task", "index")}
_ACTION = {"run": ("session",)}
_CONTROLLER = {"start": ("key",), "reduce": ("state", "event", "view")}


def problems(group: str, factory: Any) -> list[str]:
    """Return the reasons why a factory does not fit a group, one sentence each; [] if it does.

    A factory that is a function only has to be callable: its result is known when it is called.
    """
    if not callable(factory):
        return [f"is a {type(factory).__name__}; register a class or a function that makes an instance"]
    if not inspect.isclass(factory):
        return []
    return [*_name(factory), *_CHECKS[group](factory)]


def conforms(group: str, factory: type) -> bool:
    """Return whether a class implements the interface of a group."""
    return bool(getattr(factory, "name", "")) and not problems(group, factory)


def _name(factory: type) -> list[str]:
    name = getattr(factory, "name", None)
    if isinstance(name, str) and name:
        return []
    return ['has no name; give the class an attribute such as name = "mine"']


def _methods(factory: type, wanted: Mapping[str, tuple[str, ...]]) -> list[str]:
    found = []
    for method, parameters in wanted.items():
        function = inspect.getattr_static(factory, method, None)
        if not callable(function):
            found.append(f"has no method {method}({', '.join(('self', *parameters))})")
            continue
        try:
            inspect.signature(function).bind(*(None,) * (1 + len(parameters)))
        except TypeError:
            found.append(f"has a method {method} that does not take ({', '.join(('self', *parameters))})")
    return found


def _policy(factory: type) -> list[str]:
    found = _methods(factory, {"decide": ("context",)})
    if not found and not inspect.iscoroutinefunction(inspect.getattr_static(factory, "decide")):
        found.append("has a method decide that is not async; write async def decide(self, context)")
    try:
        inspect.signature(factory).bind(None)
    except TypeError:
        found.append("has a constructor that does not take its arguments; write def __init__(self, arguments)")
    except ValueError:  # an extension class without a signature
        pass
    return found


def _job_plugin(factory: type) -> list[str]:
    if issubclass(factory, JobPlugin):
        return _methods(factory, _JOB_PLUGIN)
    return ["is not a JobPlugin; derive it from volcanoio.framework.jobs.JobPlugin"]


def _scheduler_plugin(factory: type) -> list[str]:
    if any(points.implements(factory, point) for point in points.POINTS):
        return []
    return ["implements no extension point; see volcanoio.framework.scheduling.points for what there is"]


_CHECKS: Mapping[str, Callable[[type], list[str]]] = {
    entrypoints.SCHEDULER_PLUGINS: _scheduler_plugin,
    entrypoints.ACTIONS: lambda factory: _methods(factory, _ACTION),
    entrypoints.JOB_PLUGINS: _job_plugin,
    entrypoints.LIFECYCLE_POLICIES: _policy,
    entrypoints.CONTROLLERS: lambda factory: _methods(factory, _CONTROLLER),
}
