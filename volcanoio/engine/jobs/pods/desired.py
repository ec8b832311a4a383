"""Desired objects of a job beside its pods, computed once per spec."""

import msgspec

from volcanoio.engine.jobs.pods.manifests import Mount, mounts, pod_group_spec
from volcanoio.engine.jobs.pods.observed import total_replicas
from volcanoio.engine.jobs.pods.plugins import DesiredSupport, PluginCache, PluginProblem, check_job, desired_supports
from volcanoio.framework.controller import Lookup
from volcanoio.framework.jobpods import priority_class_of
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import kinds
from volcanoio.model.batch import MOST_PODS, Job, JobSpec
from volcanoio.model.core import PriorityClass
from volcanoio.model.quantity import QuantityError
from volcanoio.model.scheduling import PodGroupSpec


class WaitReason(msgspec.Struct, frozen=True):
    """Why a job waits: reason and message. With a `topic` one Event is recorded while only the message changes."""

    reason: str
    message: str
    topic: str = ""


class DesiredObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The desired objects for one spec and one set of priorities.

    With a `problem` the job waits and keeps what it has. `ignored_arguments` lists plugin arguments without effect.
    """

    spec: JobSpec
    priorities: dict[str, int]
    overrides: tuple[TaskOverride, ...] = ()
    pod_group: PodGroupSpec | None = None
    supports: tuple[DesiredSupport, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ignored_arguments: tuple[str, ...] = ()
    problem: WaitReason | None = None


def resolve_priorities(job: Job, lookup: Lookup) -> dict[str, int]:
    """Return the values of the priority classes of the job and its tasks; a missing one counts as 0.

    The lookup also wakes the job when the class appears: until then its pods are refused.
    """
    found: dict[str, int] = {}
    for name in {job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks)} - {""}:
        priority = lookup.get(kinds.PRIORITY_CLASS, name)
        found[name] = priority.value if isinstance(priority, PriorityClass) else 0
    return dict(sorted(found.items()))


def desired_objects(
    job: Job,
    before: DesiredObjects | None,
    lookup: Lookup,
    plugin_cache: PluginCache,
    overrides: tuple[TaskOverride, ...] = (),
) -> DesiredObjects:
    """Return the desired objects; `before` itself when nothing they depend on changed."""
    priorities = resolve_priorities(job, lookup)
    pod_overrides = tuple(override for override in overrides if override.index is not None)
    if before is not None and (before.spec, before.priorities, before.overrides) == (
        job.spec,
        priorities,
        pod_overrides,
    ):
        return before
    desired = DesiredObjects(spec=job.spec, priorities=priorities, overrides=pod_overrides, mounts=mounts(job))
    if (pods := total_replicas(job)) > MOST_PODS:
        message = f"a job has at most {MOST_PODS} pods, this one wants {pods}; lower replicas or submit several jobs"
        return msgspec.structs.replace(desired, problem=WaitReason("TooManyPods", message))
    try:
        group = pod_group_spec(job, priorities, pod_overrides)
        plugins, ignored_arguments = plugin_cache.of(job)
        check_job(job, plugins)
        supports = desired_supports(job, plugins)
    except PluginProblem as error:
        return msgspec.structs.replace(desired, problem=WaitReason("PluginError", str(error)))
    except (QuantityError, msgspec.ValidationError) as error:
        message = f"a pod template of the job is not valid: {error}; correct the template and submit the job again"
        return msgspec.structs.replace(desired, problem=WaitReason("InvalidTemplate", message))
    return msgspec.structs.replace(desired, pod_group=group, supports=supports, ignored_arguments=ignored_arguments)
