"""Plugin pdb: evictions keep within disruption budgets (Volcano: pkg/scheduler/plugins/pdb)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task
from volcanoio.model import kinds
from volcanoio.model.core import PodDisruptionBudget
from volcanoio.model.requirements import satisfied


class PdbArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Pdb:
    """Takes a victim only while every budget that covers it allows one more disruption.

    Evictions that are decided and that a budget cannot know of yet count, too (in Volcano they do not).
    """

    name = "pdb"
    watches = (kinds.PDB.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, PdbArguments, self.name)
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        """Keep the session at hand: budgets are read when somebody is to be evicted."""
        self._session = session

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
        objects = self._session.objects(kinds.PDB.resource)
        budgets = [cast("PodDisruptionBudget", objects[key]) for key in sorted(objects)]
        left = {budget.metadata.key: budget.status.disruptions_allowed for budget in budgets}
        for task in self._session.evicting if budgets else ():
            for budget in _covering(task, budgets):
                left[budget.metadata.key] -= 1
        allowed = []
        for task in candidates:
            covering = [budget.metadata.key for budget in _covering(task, budgets)]
            if all(left[key] > 0 for key in covering):
                for key in covering:
                    left[key] -= 1
                allowed.append(task)
        return allowed


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
