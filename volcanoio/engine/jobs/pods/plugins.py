"""Job plugins: their instances for a job, in order, and the support objects they declare."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from volcanoio.engine.jobs.pods.manifests import Mount, build_pod
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.jobs import JobPlugin, OwnedObject, lenient_plugin
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, JobSpec, TaskSpec
from volcanoio.model.kinds import owner_reference

PluginFactory = Callable[[Sequence[str]], JobPlugin]

MAX_CACHED_JOBS = 64
"""Number of jobs whose plugin instances are kept."""
SUPPORT_KINDS = (kinds.CONFIG_MAP, kinds.SERVICE, kinds.NETWORK_POLICY, kinds.SECRET)
_WATCHED_RESOURCES = frozenset(kind.resource for kind in SUPPORT_KINDS)


PLUGIN_ANNOTATION = "volcanoio.dev/job-plugin"
"""Annotation of a plugin's object: the plugin's name. Other objects that a job owns are never deleted."""
CONTENT_ANNOTATION = "volcanoio.dev/content"
"""Annotation of a Secret that is kept up to date: digest of its data, because Secrets are watched without data."""


class PluginProblem(Exception):  # noqa: N818 - it is no error of ours
    """A plugin is unknown, has bad arguments, or raised; the message says which and why."""


class DesiredSupport(msgspec.Struct, frozen=True):
    """An object that a plugin declares, owned by the job and labelled with its name."""

    plugin: str
    support: OwnedObject

    @property
    def key(self) -> str:
        """Return `resource/name`, unique in the job's namespace."""
        return f"{self.support.resource}/{self.support.manifest['metadata']['name']}"


class JobPlugins(NamedTuple):
    """The plugins of a job in `plugin_order`, and a sentence for each ignored argument."""

    plugins: tuple[JobPlugin, ...] = ()
    ignored: tuple[str, ...] = ()


class PluginCache:
    """Plugin instances of the most recent jobs, kept while the spec stays.

    `scheduler_names` are the schedulers that admit PodGroups before pods are created.
    """

    def __init__(self, factories: Mapping[str, PluginFactory], scheduler_names: Collection[str] = ()) -> None:
        self._factories = factories
        self.scheduler_names = frozenset(scheduler_names)
        self._known: dict[str, tuple[JobSpec, JobPlugins]] = {}

    def of(self, job: Job) -> JobPlugins:
        """Return the plugins of `spec.plugins`; raises PluginProblem."""
        uid = job.metadata.uid
        spec, found = self._known.pop(uid, (None, JobPlugins()))
        if spec is not job.spec and spec != job.spec:
            found = create_plugins(job, self._factories)
        if found.plugins:
            self._known[uid] = job.spec, found
        if len(self._known) > MAX_CACHED_JOBS:
            del self._known[next(iter(self._known))]
        return found


def create_plugins(job: Job, factories: Mapping[str, PluginFactory]) -> JobPlugins:
    """Create the plugins of `spec.plugins`; raises PluginProblem."""
    chosen = job.spec.plugins or {}
    created: dict[str, JobPlugin] = {}
    ignored: list[str] = []
    for name in sorted(chosen):
        if name not in factories:
            raise PluginProblem(f'unable to find job plugin "{name}"{suggestion(name, sorted(factories))}')
        try:
            created[name], text = lenient_plugin(factories[name], chosen[name] or ())
        except Exception as error:
            raise PluginProblem(f'job plugin "{name}" refused its arguments: {error}') from error
        ignored += [f'job plugin "{name}" ignores its {text}'] if text else []
    order = plugin_order({name: plugin.after for name, plugin in created.items()})
    return JobPlugins(tuple(created[name] for name in order), tuple(ignored))


def plugin_order(after: Mapping[str, Iterable[str]]) -> list[str]:
    """Sort names, each after those it must follow, so that all pods are built alike; raises PluginProblem."""
    order: list[str] = []
    while left := sorted(set(after) - set(order)):
        free = (name for name in left if not set(after[name]) & set(left))
        if (first := next(free, None)) is None:
            raise PluginProblem(f"job plugins {', '.join(left)} must each run after another; leave one of them out")
        order.append(first)
    return order


def check_job(job: Job, plugins: Sequence[JobPlugin]) -> None:
    """Raise PluginProblem where a plugin cannot work with the job."""
    for plugin in plugins:
        try:
            found = tuple(plugin.problems(job))
        except Exception as error:
            raise PluginProblem(f'job plugin "{plugin.name}" failed: {error}') from error
        if found:
            raise PluginProblem(f'job plugin "{plugin.name}": {"; ".join(found)}')


def desired_supports(job: Job, plugins: Sequence[JobPlugin]) -> tuple[DesiredSupport, ...]:
    """Return every object the plugins declare, in their order; raises PluginProblem."""
    result: list[DesiredSupport] = []
    for plugin in plugins:
        try:
            supports = tuple(plugin.owned_objects(job))
        except Exception as error:
            raise PluginProblem(f'job plugin "{plugin.name}" failed: {error}') from error
        for support in supports:
            if support.resource not in _WATCHED_RESOURCES:
                valid = ", ".join(_WATCHED_RESOURCES)
                raise PluginProblem(f'job plugin "{plugin.name}" asks for {support.resource}; valid values: {valid}')
            result.append(DesiredSupport(plugin.name, _owned_support(job, plugin, support)))
    return tuple(result)


def pod_with_plugins(
    job: Job, task: TaskSpec, index: int, mounts: Sequence[Mount], plugins: Sequence[JobPlugin]
) -> Manifest:
    """Return the manifest of a pod with the changes of its plugins; raises PluginProblem."""
    try:
        return build_pod(job, task, index, mounts, plugins)
    except Exception as error:
        raise PluginProblem(f"a job plugin failed on pod {index} of task {task.name}: {error}") from error


def _owned_support(job: Job, plugin: JobPlugin, support: OwnedObject) -> OwnedObject:
    meta: Manifest = dict(support.manifest.get("metadata") or {})
    annotations = {**(meta.get("annotations") or {}), PLUGIN_ANNOTATION: plugin.name}
    if support.update and support.resource == kinds.SECRET.resource:
        annotations[CONTENT_ANNOTATION] = _digest(support)
    meta["annotations"] = annotations
    meta["namespace"] = job.metadata.namespace
    meta["labels"] = {**(meta.get("labels") or {}), names.JOB_NAME: job.metadata.name}
    meta["ownerReferences"] = [owner_reference(kinds.JOB, job)]
    return msgspec.structs.replace(support, manifest={**support.manifest, "metadata": meta})


def _digest(support: OwnedObject) -> str:
    """Return a digest by which two contents of a Secret are compared."""
    data = support.manifest.get("data") or {}
    changing = {key: value for key, value in data.items() if key not in support.fixed}
    return hashlib.sha256(msgspec.json.encode(changing, order="sorted")).hexdigest()[:32]
