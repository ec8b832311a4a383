"""Plugin pdb: evictions keep within disruption budgets (Volcano: pkg/scheduler/plugins/pdb)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task
from volcanoio.model import kinds
from volcanoio.model.core import PodDisruptionBudget
from volcanoio.model.requirements import satisfied

LATE = 30.0
"""Seconds after which a budget whose status stays as it was is taken to know of a pod that ends."""


class Late(NamedTuple):
    """A pod that ends: the resourceVersions of budgets that may not know it, and until when at most that holds."""

    versions: Mapping[str, str]
    until: float


class PdbArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Pdb:
    """Takes a victim only while every budget that covers it allows one more disruption.

    Evictions that are decided and that a budget cannot know of yet count, too (in Volcano they do not): until its
    status is written again after the pod was seen to end, which the disruption controller does within moments.
    """

    name = "pdb"
    watches = (kinds.PDB.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, PdbArguments, self.name)
        self._session: SessionView | None = None
        self._asked: dict[str, Task] = {}
        """Tasks whose eviction was decided and whose pods did not show that in the session before, by uid."""
        self._unknown: dict[str, Late] = {}
        """By uid those whose pods show it, while budgets may not."""

    def open(self, session: SessionView) -> None:
        """Keep the session at hand: budgets are read when somebody is to be evicted."""
        self._session = session
        asked = {task.uid: task for task in session.evicting}
        if self._asked or self._unknown:
            budgets = self._budgets()
            for uid, task in self._asked.items():
                if uid not in asked and (versions := _versions(task, budgets)):
                    self._unknown[uid] = Late(versions, session.now + LATE)
            current = {budget.metadata.key: budget.metadata.resource_version for budget in budgets}
            for uid, late in list(self._unknown.items()):
                versions = {key: version for key, version in late.versions.items() if current.get(key) == version}
                if versions and session.now < late.until:
                    self._unknown[uid] = late._replace(versions=versions)
                else:
                    del self._unknown[uid]
        self._asked = asked

    def close(self, session: SessionView) -> None:
        """Note what is asked for by now."""
        self._asked = {task.uid: task for task in session.evicting}

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Those that the budgets allow, in the given order."""
        return self._allowed(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Those that the budgets allow, in the given order."""
        return self._allowed(candidates)

    def permitted(self, victims: Sequence[Task]) -> Sequence[Task]:
        """Those that the budgets allow, in the given order."""
        return self._allowed(victims)

    def _allowed(self, candidates: Sequence[Task]) -> list[Task]:
        """Victims one after the other, each counted against all budgets that cover it."""
        assert self._session is not None
        budgets = self._budgets()
        left = {budget.metadata.key: budget.status.disruptions_allowed for budget in budgets}
        for task in self._session.evicting if budgets else ():
            for budget in _covering(task, budgets):
                left[budget.metadata.key] -= 1
        for late in self._unknown.values():
            for key in late.versions.keys() & left.keys():
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
    """The resourceVersions of the budgets that cover a task, by key."""
    return {budget.metadata.key: budget.metadata.resource_version for budget in _covering(task, budgets)}


def _covering(task: Task, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """The budgets that a task's eviction would use up some of; one that has counted it already is not among them."""
    labels = task.pod.metadata.labels
    return [
        budget
        for budget in budgets
        if budget.metadata.namespace == task.namespace
        and budget.spec.selector is not None
        and task.name not in budget.status.disrupted_pods
        and all(satisfied(each, labels.get(each.key)) for each in budget.spec.selector.requirements)
    ]
