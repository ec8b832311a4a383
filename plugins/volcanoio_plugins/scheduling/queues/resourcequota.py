"""Plugin resourcequota: jobs are admitted within the quotas of their namespace (Volcano: plugins/resourcequota).

Resource names are compared literally: a quota on `requests.cpu` counts `requests.cpu` of minResources. Unlike in
Volcano, jobs that were admitted in an earlier cycle and have no pods yet count too, because the quota's own `used`
counts pods only. And a quota with scopes counts only what matches them (Kubernetes:
pkg/quota/v1/evaluator/core/pods.go).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.podusage import QuotaScope, scopes_of, spec_usage
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job
from volcanoio.model import kinds, quantity
from volcanoio.model.core import PodAffinityTerm, PodSpec, ResourceQuota
from volcanoio.model.resources import MEMORY, PODS, Amounts, add, amounts, resource_list
from volcanoio.model.scheduling import PodGroup, PodGroupPhase


def counts_pod(scopes: tuple[QuotaScope, ...], spec: PodSpec) -> bool:
    """Return whether a quota with these scopes counts a pod."""
    return all(scope.name in _OF_POD and _OF_POD[scope.name](scope, spec) for scope in scopes)


def counts_group(scopes: tuple[QuotaScope, ...], group: PodGroup) -> bool:
    """Return whether it would count the pods of a group that has none yet, as far as that is known.

    They have the group's PriorityClass, requests if minResources names cpu or memory, no deadline and no affinity
    across namespaces.
    """
    return all(scope.name in _OF_GROUP and _OF_GROUP[scope.name](scope, group) for scope in scopes)


def _best_effort(spec: PodSpec) -> bool:
    """Return whether no container requests or limits cpu or memory; pod-level resources take precedence."""
    if spec.resources is not None:
        given = [spec.resources]
    else:
        given = [container.resources for container in (*spec.containers, *spec.init_containers)]
    return not any(_computes(each.requests) or _computes(each.limits) for each in given)


def _computes(resources: Any) -> bool:
    return any(quantity.milli(resources.get(name, 0)) > 0 for name in ("cpu", "memory"))


def _crosses(spec: PodSpec) -> bool:
    return any(term.namespaces or term.namespace_selector is not None for term in _terms(spec))


def _terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    if spec.affinity is None:
        return
    for rules in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if rules is not None:
            yield from rules.required_during_scheduling_ignored_during_execution
            for each in rules.preferred_during_scheduling_ignored_during_execution:
                yield each.pod_affinity_term


def _group_computes(group: PodGroup) -> bool:
    named = group.spec.min_resources or {}
    return any(quantity.milli(named.get(name, 0)) > 0 for name in ("cpu", "memory", "requests.cpu", "requests.memory"))


_OF_POD: dict[str, Callable[[QuotaScope, PodSpec], bool]] = {
    "Terminating": lambda _, spec: spec.active_deadline_seconds is not None,
    "NotTerminating": lambda _, spec: spec.active_deadline_seconds is None,
    "BestEffort": lambda _, spec: _best_effort(spec),
    "NotBestEffort": lambda _, spec: not _best_effort(spec),
    "PriorityClass": lambda scope, spec: scope.meets(spec.priority_class_name),
    "CrossNamespacePodAffinity": lambda _, spec: _crosses(spec),
}
"""By scope; no pods match other scopes, such as VolumeAttributesClass."""

_OF_GROUP: dict[str, Callable[[QuotaScope, PodGroup], bool]] = {
    "NotTerminating": lambda *_: True,
    "BestEffort": lambda _, group: not _group_computes(group),
    "NotBestEffort": lambda _, group: _group_computes(group),
    "PriorityClass": lambda scope, group: scope.meets(group.spec.priority_class_name),
}


INSUFFICIENT = "ResourceQuotaInsufficient"


class Quota(NamedTuple):
    """A quota by key, its scopes, and its hard and used amounts."""

    key: str
    scopes: tuple[QuotaScope, ...]
    hard: Amounts
    used: Amounts


class ResourceQuotas:
    """Admits a job while each quota of its namespace covers its minResources beside what is used and admitted.

    A quota with scopes covers the requests of its pods in scope, or what is known of them before there are any.
    """

    name = "resourcequota"
    watches = (kinds.RESOURCE_QUOTA.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._session: SessionView | None = None
        self._quotas: dict[str, list[Quota]] = {}

    def open(self, session: SessionView) -> None:
        """Group the quotas by namespace, and count admitted jobs without pods, if any job waits for admission."""
        self._session = session
        self._quotas = {}
        if not session.has_jobs_in(PodGroupPhase.PENDING):
            return
        objects = session.objects(kinds.RESOURCE_QUOTA.resource)
        for key in sorted(objects):
            quota = cast("ResourceQuota", objects[key])
            hard, used = amounts(quota.status.hard), amounts(quota.status.used)
            known = Quota(key, scopes_of(quota.spec.scopes, quota.spec.scope_selector), hard, used)
            self._quotas.setdefault(quota.metadata.namespace, []).append(known)
        if self._quotas:
            for job in session.jobs_in(PodGroupPhase.INQUEUE):
                if job.namespace in self._quotas and (missing := job.min_available - len(job.tasks)) > 0:
                    self._count(job, missing)

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit the job if every quota of the namespace covers it."""
        for quota in self._quotas.get(job.namespace, ()):
            wanted = {name: amount for name, amount in _demand(job, quota).items() if name in quota.hard}
            admitted = self._admitted(quota)
            taken = {name: quota.used.get(name, 0) + admitted.get(name) for name in wanted}
            if over := [name for name, amount in wanted.items() if taken[name] + amount > quota.hard[name]]:
                requested, used, limited = (_listed(values, over) for values in (wanted, taken, quota.hard))
                return reject(
                    INSUFFICIENT,
                    f"resource quota insufficient, requested: {requested}, used: {used}, limited: {limited}",
                )
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        if job.namespace in self._quotas:
            self._count(job, max(job.min_available, 1))

    def _count(self, job: Job, missing: int) -> None:
        """Count the part of a job's minResources that belongs to its missing members."""
        members = max(job.min_available, 1)
        for quota in self._quotas[job.namespace]:
            for name, amount in _demand(job, quota).items():
                self._admitted(quota).add(name, -(-amount * missing // members))

    def _admitted(self, quota: Quota) -> Table:
        assert self._session is not None
        return self._session.table(self.name, f"admitted/{quota.key}")


def _demand(job: Job, quota: Quota) -> Amounts:
    """Return the part of minResources, quota-style names included, that a quota counts."""
    minimum = amounts(job.group.spec.min_resources)
    if not quota.scopes:
        return minimum
    specs = [task.pod.spec for task in job.tasks]
    inside = [spec for spec in specs if counts_pod(quota.scopes, spec)]
    if len(inside) == len(specs):
        return minimum if specs or counts_group(quota.scopes, job.group) else {}
    asked: Amounts = {}
    for spec in inside:
        add(asked, spec_usage(spec))
    in_units = {name: -(-amount // 1000) if name in (MEMORY, PODS) else amount for name, amount in asked.items()}
    return {name: min(amount, in_units[name]) for name, amount in minimum.items() if name in in_units}


def _listed(values: Mapping[str, int], names: Collection[str]) -> str:
    listed = resource_list({name: values[name] for name in names})
    return ", ".join(f"{name}={text}" for name, text in listed.items())
