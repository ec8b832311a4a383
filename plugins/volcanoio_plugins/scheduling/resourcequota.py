"""Plugin resourcequota: jobs are admitted within quotas of their namespace (Volcano: its plugin of the same name).

Names of resources are compared as they are written: a quota on `requests.cpu` counts what minResources says of
`requests.cpu`. Unlike there, what was admitted in an earlier cycle and has no pods yet counts too: the quota's own
`used` knows of pods alone. And a quota with scopes counts only what it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.podusage import usage_of
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job
from volcanoio.model import kinds
from volcanoio.model.core import ResourceQuota
from volcanoio.model.quotascopes import Scope, scopes_of
from volcanoio.model.resources import MEMORY, PODS, Amounts, add, amounts, resource_list
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.parts.quotascopes import counts_group, counts_pod

INSUFFICIENT = "ResourceQuotaInsufficient"


class Quota(NamedTuple):
    """A quota by key, what it is about, and what it allows and has in use."""

    key: str
    scopes: tuple[Scope, ...]
    hard: Amounts
    used: Amounts


class ResourceQuotaArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class ResourceQuotas:
    """Admits a job while each quota of its namespace covers its minResources beside what is used and admitted.

    A quota with scopes covers what its pods in scope ask for, or what is known of them before there are any.
    """

    name = "resourcequota"
    watches = (kinds.RESOURCE_QUOTA.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ResourceQuotaArguments, self.name)
        self._session: SessionView | None = None
        self._quotas: dict[str, list[Quota]] = {}

    def open(self, session: SessionView) -> None:
        """Sort the quotas by namespace, and count what is admitted and has no pods yet, where any job waits."""
        self._session = session
        self._quotas = {}
        if not session.any_in(PodGroupPhase.PENDING):
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
        """Whether every quota of the namespace has room."""
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
        """Count the part of a job's minResources that its missing members are."""
        members = max(job.min_available, 1)
        for quota in self._quotas[job.namespace]:
            for name, amount in _demand(job, quota).items():
                self._admitted(quota).add(name, -(-amount * missing // members))

    def _admitted(self, quota: Quota) -> Table:
        assert self._session is not None
        return self._session.table(self.name, f"admitted/{quota.key}")


def _demand(job: Job, quota: Quota) -> Amounts:
    """The part of minResources, with all its names, those in a quota's style too, that a quota is about."""
    minimum = amounts(job.group.spec.min_resources)
    if not quota.scopes:
        return minimum
    specs = [task.pod.spec for task in job.tasks]
    inside = [spec for spec in specs if counts_pod(quota.scopes, spec)]
    if len(inside) == len(specs):
        return minimum if specs or counts_group(quota.scopes, job.group) else {}
    asked: Amounts = {}
    for spec in inside:
        add(asked, usage_of(spec))
    in_units = {name: -(-amount // 1000) if name in (MEMORY, PODS) else amount for name, amount in asked.items()}
    return {name: min(amount, in_units[name]) for name, amount in minimum.items() if name in in_units}


def _listed(values: Mapping[str, int], names: Collection[str]) -> str:
    """`cpu=20, memory=20G`, of these names."""
    listed = resource_list({name: values[name] for name in names})
    return ", ".join(f"{name}={text}" for name, text in listed.items())
