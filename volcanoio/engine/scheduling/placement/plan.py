"""Which parts of plugins answer about a shape, sorted by what their answers depend on."""

from __future__ import annotations

from volcanoio.engine.scheduling.adapters import SHARED, FilterPart, ScorerPart
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Shape

_AMOUNTS = (Depends.NODE_AMOUNTS | Depends.NODE_USAGE).value
_SHARED, _USAGE, _NOW, _SOURCE = SHARED.value, Depends.NODE_USAGE.value, Depends.NOW.value, Depends.SOURCE.value
"""As numbers: the arithmetic of flags is slow, and every shape is asked about in every cycle."""


class Plan:
    """The parts that answer about one shape, as of now.

    `constant` filters say the same of all nodes, `static` ones depend on the node's own object, `usage` ones on what is
    placed there too; `live_filters` and `live_scorers` depend on more than the row itself and are asked for every task.
    `facts` are the versions of the inputs that answers follow from; `fleeting` says that some hold for one cycle only,
    `by_moment` that some filter says other things at other times, which its plugin tells beforehand.
    """

    __slots__ = (
        "by_amounts",
        "by_moment",
        "constant",
        "depends",
        "facts",
        "fleeting",
        "live_filters",
        "live_scorers",
        "scorers",
        "static",
        "usage",
    )

    def __init__(self) -> None:
        self.constant: list[FilterPart] = []
        self.static: list[FilterPart] = []
        self.usage: list[FilterPart] = []
        self.live_filters: list[FilterPart] = []
        self.scorers: list[ScorerPart] = []
        self.live_scorers: list[ScorerPart] = []
        self.facts: list[tuple[int, ...]] = []
        self.depends: list[Depends] | None = None
        """What each part said that its answers depend on."""
        self.fleeting = False
        self.by_moment = False
        self.by_amounts = False
        """Whether the answers of scorers follow from a row's amounts alone."""

    def values_alike(self, other: Plan) -> bool:
        """Whether values by row, once the constant filters pass, are the same by both."""
        return (self.static, self.usage, self.scorers) == (other.static, other.usage, other.scorers)

    def lasts(self, before: Plan) -> bool:
        """Whether what was answered by the plan before holds by this one."""
        same = self.values_alike(before) and self.constant == before.constant and self.facts == before.facts
        return same and not self.fleeting

    @property
    def by_row(self) -> bool:
        """Whether a change of usage asks scalar scorers alone."""
        return not self.usage and all(part.one is not None for part in self.scorers)


NO_PLAN = Plan()


def plan_for(shape: Shape, rules: Rules, inputs: Inputs, before: Plan = NO_PLAN) -> Plan:
    """Sort the parts by what they depend on for the shape; the plan before, by the same rules, where that holds."""
    depends_of = [part.depends(shape) for part in rules.parts]
    if depends_of == before.depends and not before.facts and not before.fleeting:
        return before
    plan, further = Plan(), 0
    plan.depends = depends_of
    for part, said in zip(rules.filters, depends_of, strict=False):
        depends = said.value
        if not depends:
            plan.constant.append(part)
            continue
        plan.fleeting |= _changes_unseen(depends, part, inputs, plan.facts)
        plan.by_moment |= part.moment is not None and bool(depends & _NOW)
        if depends & _SHARED:
            plan.live_filters.append(part)
        else:
            (plan.usage if depends & _USAGE else plan.static).append(part)
    for scorer, said in zip(rules.scorers, depends_of[len(rules.filters) :], strict=True):
        depends = said.value
        if depends:  # what depends on nothing is the same for all nodes
            plan.fleeting |= _changes_unseen(depends, scorer, inputs, plan.facts)
            if depends & _SHARED:
                plan.live_scorers.append(scorer)
            else:
                plan.scorers.append(scorer)
                further |= depends & ~_AMOUNTS
    plan.by_amounts = plan.by_row and not further
    return plan


def _changes_unseen(depends: int, part: FilterPart | ScorerPart, inputs: Inputs, facts: list[tuple[int, ...]]) -> bool:
    """Whether an answer may be another in each cycle; where it follows from inputs, their versions tell."""
    if not depends & (_NOW | _SOURCE):
        return False
    if part.moment is not None and depends & _NOW:
        facts.append((part.moment(),))
        depends &= ~_NOW
    if depends & _SOURCE and part.watches:
        facts.append(inputs.versions(part.watches))
        return bool(depends & _NOW)
    return bool(depends & (_SOURCE | _NOW))
