"""What a job's spec asks for beside its pods, worked out once per spec and not once per event."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.claims import Mount, mounts
from volcanoio.engine.jobs.counting import total_replicas
from volcanoio.engine.jobs.plugins import PluginProblem, PluginSets, Wish, check_job, wishes
from volcanoio.engine.jobs.podgroup import group_spec
from volcanoio.framework.controller import Lookup
from volcanoio.framework.gangs import priority_class_of
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import kinds
from volcanoio.model.batch import MOST_PODS, Job, JobSpec
from volcanoio.model.core import PriorityClass
from volcanoio.model.quantity import QuantityError
from volcanoio.model.scheduling import PodGroupSpec


class Problem(msgspec.Struct, frozen=True):
    """Why a job has to wait: a reason for machines, a message for people.

    With a `topic` an event is told once while only the words change.
    """

    reason: str
    message: str
    topic: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one spec and one set of priorities. With a `problem` the job waits and keeps what it has."""

    spec: JobSpec
    priorities: dict[str, int]
    overrides: tuple[TaskOverride, ...] = ()
    group: PodGroupSpec | None = None
    wishes: tuple[Wish, ...] = ()
    mounts: tuple[Mount, ...] = ()
    problem: Problem | None = None


def priorities_of(job: Job, lookup: Lookup) -> dict[str, int]:
    """Values of the priority classes that the job and its tasks name; an unknown one counts as 0.

    Asking for one also means to go on as soon as it comes: until then the job's pods are refused.
    """
    found: dict[str, int] = {}
    for name in {job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks)} - {""}:
        priority = lookup.get(kinds.PRIORITY_CLASS, name)
        found[name] = priority.value if isinstance(priority, PriorityClass) else 0
    return dict(sorted(found.items()))


def work_out(
    job: Job,
    before: Wanted | None,
    lookup: Lookup,
    sets: PluginSets,
    overrides: tuple[TaskOverride, ...] = (),
) -> Wanted:
    """What the job wants, `overrides` of single pods included; `before` itself when nothing it depends on changed."""
    priorities = priorities_of(job, lookup)
    own = tuple(override for override in overrides if override.index is not None)
    if before is not None and (before.spec, before.priorities, before.overrides) == (job.spec, priorities, own):
        return before
    wanted = Wanted(spec=job.spec, priorities=priorities, overrides=own, mounts=mounts(job))
    if (pods := total_replicas(job)) > MOST_PODS:
        message = f"a job has at most {MOST_PODS} pods, this one wants {pods}; lower replicas or submit several jobs"
        return msgspec.structs.replace(wanted, problem=Problem("TooManyPods", message))
    try:
        group = group_spec(job, priorities, own)
        plugins = sets.of(job)
        check_job(job, plugins)
        wished = wishes(job, plugins)
    except PluginProblem as error:
        return msgspec.structs.replace(wanted, problem=Problem("PluginError", str(error)))
    except (QuantityError, msgspec.ValidationError) as error:
        message = f"a pod template of the job is not valid: {error}; correct the template and submit the job again"
        return msgspec.structs.replace(wanted, problem=Problem("InvalidTemplate", message))
    return msgspec.structs.replace(wanted, group=group, wishes=wished)
