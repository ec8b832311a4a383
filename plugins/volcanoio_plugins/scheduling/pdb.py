"""Plugin pdb: evictions keep within disruption budgets (Volcano: pkg/scheduler/plugins/pdb)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task
from volcanoio.model import kinds
from volcanoio.model.core import PodDisruptionBudget
from volcanoio.model.selectors import satisfied

STATUS_TIMEOUT = 30.0
"""Seconds after which a budget with unchanged status is assumed to have counted a terminating pod."""


class UncountedDisruption(NamedTuple):
    """A terminating pod: the resourceVersions of budgets that may not have counted it, and until when."""

    versions: Mapping[str, str]
    until: float


class Pdb:
    """Permits a victim only while every budget that covers it allows one more disruption.

    Decided evictions that a budget cannot have counted yet count too (in Volcano they do not): until its status is
    written again after the pod was seen terminating, which the disruption controller does within moments.
    """

    name = "pdb"
    watches = (kinds.PDB.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._session: SessionView | None = None
        self._evicting: dict[str, Task] = {}
        """Tasks whose eviction was decided and whose pods did not show it in the previous session, by uid."""
        self._uncounted: dict[str, UncountedDisruption] = {}
        """By uid, tasks whose pods show the eviction while budgets may not."""

    def open(self, session: SessionView) -> None:
        """Update the disruptions that budgets have not counted; budgets are read when victims are selected."""
        self._session = session
        evicting = {task.uid: task for task in session.evicting}
        if self._evicting or self._uncounted:
            budgets = self._budgets()
            for uid, task in self._evicting.items():
                if uid not in evicting and (versions := _versions(task, budgets)):
                    self._uncounted[uid] = UncountedDisruption(versions, session.now + STATUS_TIMEOUT)
            current = {budget.metadata.key: budget.metadata.resource_version for budget in budgets}
            for uid, uncounted in list(self._uncounted.items()):
                versions = {key: version for key, version in uncounted.versions.items() if current.get(key) == version}
                if versions and session.now < uncounted.until:
                    self._uncounted[uid] = uncounted._replace(versions=versions)
                else:
                    del self._uncounted[uid]
        self._evicting = evicting

    def close(self, session: SessionView) -> None:
        """Record the evictions decided so far."""
        self._evicting = {task.uid: task for task in session.evicting}

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Return those that the budgets allow, in the given order."""
        return self._allowed(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Return those that the budgets allow, in the given order."""
        return self._allowed(candidates)

    def permitted(self, victims: Sequence[Task]) -> Sequence[Task]:
        """Return those that the budgets allow, in the given order."""
        return self._allowed(victims)

    def _allowed(self, candidates: Sequence[Task]) -> list[Task]:
        """Count victims one by one against all budgets that cover them."""
        assert self._session is not None
        budgets = self._budgets()
        left = {budget.metadata.key: budget.status.disruptions_allowed for budget in budgets}
        for task in self._session.evicting if budgets else ():
            for budget in _covering(task, budgets):
                left[budget.metadata.key] -= 1
        for uncounted in self._uncounted.values():
            for key in uncounted.versions.keys() & left.keys():
                left[key] -= 1
        allowed = []
        for task in candidates:
            covering = [budget.metadata.key for budget in _covering(task, budgets)]
            if all(left[key] > 0 for key in covering):
                for key in covering:
                    left[key] -= 1
                allowed.append(task)
        return allowed

    def _budgets(self) -> list[PodDisruptionBudget]:
        assert self._session is not None
        objects = self._session.objects(kinds.PDB.resource)
        return [cast("PodDisruptionBudget", objects[key]) for key in sorted(objects)]


def _versions(task: Task, budgets: Iterable[PodDisruptionBudget]) -> dict[str, str]:
    return {budget.metadata.key: budget.metadata.resource_version for budget in _covering(task, budgets)}


def _covering(task: Task, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """Return the budgets that a task's eviction would count against, without those that have counted it already."""
    labels = task.pod.metadata.labels
    return [
        budget
        for budget in budgets
        if budget.metadata.namespace == task.namespace
        and budget.spec.selector is not None
        and task.name not in budget.status.disrupted_pods
        and all(satisfied(each, labels.get(each.key)) for each in budget.spec.selector.requirements)
    ]
