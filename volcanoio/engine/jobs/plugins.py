"""Job plugins at work: instances for a job, in their order, and the objects they wish for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from volcanoio.engine.jobs.claims import Mount
from volcanoio.engine.jobs.pods import build_pod
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.jobs import JobPlugin, Support
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio.model.references import owner_reference

PluginFactory = Callable[[Sequence[str]], JobPlugin]

MOST_SETS = 64
"""Jobs whose plugins are kept."""
SUPPORT_KINDS = (kinds.CONFIG_MAP, kinds.SERVICE, kinds.NETWORK_POLICY, kinds.SECRET)
_WATCHED = frozenset(kind.resource for kind in SUPPORT_KINDS)


MADE_BY = "volcanoio.dev/job-plugin"
"""On every object that a plugin wished for: the plugin's name. What else a job owns is not ours to delete."""
CONTENT = "volcanoio.dev/content"
"""On a Secret that is kept up to date: the digest of what we gave it. Secrets are watched without their data."""


class PluginProblem(Exception):  # noqa: N818 - it is no error of ours
    """A plugin that is unknown, was given bad arguments, or raised; the message says which and why."""


class Wish(msgspec.Struct, frozen=True):
    """An object that a plugin wishes for, owned by the job and labelled with its name."""

    plugin: str
    support: Support

    @property
    def key(self) -> str:
        """`resource/name`, unique in the job's namespace."""
        return f"{self.support.resource}/{self.support.manifest['metadata']['name']}"


class PluginSets:
    """The plugins of jobs. Those of the last ones are kept while the spec stays, with all they have worked out."""

    def __init__(self, factories: Mapping[str, PluginFactory]) -> None:
        self._factories = factories
        self._known: dict[str, tuple[JobSpec, tuple[JobPlugin, ...]]] = {}

    def of(self, job: Job) -> tuple[JobPlugin, ...]:
        """The plugins that `spec.plugins` names, in `ordered`; raises PluginProblem."""
        uid = job.metadata.uid
        spec, plugins = self._known.pop(uid, (None, ()))
        if spec is not job.spec and spec != job.spec:
            plugins = plugins_of(job, self._factories)
        if plugins:
            self._known[uid] = job.spec, plugins
        if len(self._known) > MOST_SETS:
            del self._known[next(iter(self._known))]
        return plugins


def plugins_of(job: Job, factories: Mapping[str, PluginFactory]) -> tuple[JobPlugin, ...]:
    """The plugins that `spec.plugins` names, in `ordered`; raises PluginProblem."""
    chosen = job.spec.plugins or {}
    made: dict[str, JobPlugin] = {}
    for name in sorted(chosen):
        if name not in factories:
            msg = f'unable to find job plugin "{name}"{suggestion(name, sorted(factories))}'
            raise PluginProblem(msg)
        try:
            made[name] = factories[name](tuple(chosen[name] or ()))
        except Exception as error:
            msg = f'job plugin "{name}" refused its arguments: {error}'
            raise PluginProblem(msg) from error
    return tuple(made[name] for name in ordered({name: plugin.after for name, plugin in made.items()}))


def ordered(after: Mapping[str, Iterable[str]]) -> list[str]:
    """Names sorted, but each behind those it comes after, so that every pod is built alike; raises PluginProblem."""
    order: list[str] = []
    while left := sorted(set(after) - set(order)):
        free = (name for name in left if not set(after[name]) & set(left))
        if (first := next(free, None)) is None:
            msg = f"job plugins {', '.join(left)} each want to come after another; leave one of them out"
            raise PluginProblem(msg)
        order.append(first)
    return order


def check_job(job: Job, plugins: Sequence[JobPlugin]) -> None:
    """Raise PluginProblem where a plugin cannot work with the job."""
    for plugin in plugins:
        try:
            found = tuple(plugin.problems(job))
        except Exception as error:
            msg = f'job plugin "{plugin.name}" failed: {error}'
            raise PluginProblem(msg) from error
        if found:
            msg = f'job plugin "{plugin.name}": {"; ".join(found)}'
            raise PluginProblem(msg)


def wishes(job: Job, plugins: Sequence[JobPlugin]) -> tuple[Wish, ...]:
    """Every object the plugins wish for, in their order; raises PluginProblem."""
    result: list[Wish] = []
    for plugin in plugins:
        try:
            supports = tuple(plugin.supports(job))
        except Exception as error:
            msg = f'job plugin "{plugin.name}" failed: {error}'
            raise PluginProblem(msg) from error
        for support in supports:
            if support.resource not in _WATCHED:
                msg = f'job plugin "{plugin.name}" wishes for {support.resource}; known are: {", ".join(_WATCHED)}'
                raise PluginProblem(msg)
            result.append(Wish(plugin.name, _owned(job, plugin, support)))
    return tuple(result)


def pod_with_plugins(
    job: Job, task: TaskSpec, index: int, mounts: Sequence[Mount], plugins: Sequence[JobPlugin]
) -> Manifest:
    """A pod as its plugins want it; raises PluginProblem."""
    try:
        return build_pod(job, task, index, mounts, plugins)
    except Exception as error:
        msg = f"a job plugin failed on pod {index} of task {task.name}: {error}"
        raise PluginProblem(msg) from error


def _owned(job: Job, plugin: JobPlugin, support: Support) -> Support:
    meta: Manifest = dict(support.manifest.get("metadata") or {})
    annotations = {**(meta.get("annotations") or {}), MADE_BY: plugin.name}
    if support.update and support.resource == kinds.SECRET.resource:
        annotations[CONTENT] = _digest(support)
    meta["annotations"] = annotations
    meta["namespace"] = job.metadata.namespace
    meta["labels"] = {**(meta.get("labels") or {}), names.JOB_NAME: job.metadata.name}
    meta["ownerReferences"] = [owner_reference(kinds.JOB, job)]
    return msgspec.structs.replace(support, manifest={**support.manifest, "metadata": meta})


def _digest(support: Support) -> str:
    """What tells two contents of a Secret apart without a look at them."""
    data = support.manifest.get("data") or {}
    changing = {key: value for key, value in data.items() if key not in support.fixed}
    return hashlib.sha256(msgspec.json.encode(changing, order="sorted")).hexdigest()[:32]
