"""The plugins of a shape, sorted by what their results depend on."""

from __future__ import annotations

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.config.plugin_parts import SHARED, FilterPart, ScorerPart
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Shape

_AMOUNTS = (Depends.NODE_AMOUNTS | Depends.NODE_USAGE).value
_SKIP = Depends.SKIP.value
_SHARED, _USAGE, _NOW, _SOURCE = SHARED.value, Depends.NODE_USAGE.value, Depends.NOW.value, Depends.SOURCE.value
"""Flags as integers: arithmetic on flags is slow, and plans are made for every shape in every cycle."""


class Plan:
    """The filters and scorers of one shape; made for each cycle, and kept if nothing differs.

    Filters are in one of four lists. The result of a `constant` filter is the same for all nodes; that of a `static`
    filter depends on nothing that a placement changes; that of a `usage` filter also on the tasks placed on the node.
    `live_filters` and `live_scorers` depend on more than the row and are called for every task. `input_versions` are
    the versions of the inputs that results depend on, and the `moment` numbers of plugins. `is_for_one_cycle`: some
    result may differ in the next cycle, and no version shows it.
    """

    __slots__ = (
        "constant",
        "depends",
        "has_time_dependent_filters",
        "input_versions",
        "is_by_amounts",
        "is_for_one_cycle",
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
        self.input_versions: list[tuple[int, ...]] = []
        self.depends: list[Depends] | None = None
        """The declared dependencies of each filter and scorer, in the order of `Rules.parts`."""
        self.is_for_one_cycle = False
        self.has_time_dependent_filters = False
        self.is_by_amounts = False
        """Whether `can_score_single_rows`, and scores depend on the amounts of the row alone."""

    def applying_filters(self, rules: Rules) -> list[FilterPart]:
        """Return the filters of these rules, from which the plan was made, that are called for the shape, in order."""
        depends_of = () if self.depends is None else self.depends
        parts = zip(rules.filters, depends_of, strict=False)  # filters come before scorers
        return [part for part, depends in parts if depends is not Depends.SKIP]

    def has_same_parts(self, other: Plan) -> bool:
        """Return whether the same plugins compute the scores by row, the constant filters aside."""
        return (self.static, self.usage, self.scorers) == (other.static, other.usage, other.scorers)

    def is_valid_after(self, before: Plan) -> bool:
        """Return whether results computed under the previous plan are valid under this one."""
        same = (
            self.has_same_parts(before)
            and self.constant == before.constant
            and self.input_versions == before.input_versions
        )
        return same and not self.is_for_one_cycle

    @property
    def can_score_single_rows(self) -> bool:
        """Whether scalar scorers alone give a row's new score after its usage changed: no filter depends on usage."""
        return not self.usage and all(part.one is not None for part in self.scorers)

    @property
    def has_static_filters(self) -> bool:
        """Whether filters depend on nothing that a placement changes, and results are valid beyond this cycle."""
        return not self.usage and not self.live_filters and not self.is_for_one_cycle


NO_PLAN = Plan()


def plan_for(shape: Shape, rules: Rules, inputs: Inputs, before: Plan = NO_PLAN) -> Plan:
    """Sort the plugins by what they depend on for the shape; return the previous plan if nothing differs."""
    fields = {field for field in rules.shape_fields if getattr(shape, field)}
    depends_of = [
        part.depends(shape) if part.applies_to is None or not fields.isdisjoint(part.applies_to) else part.otherwise
        for part in rules.parts
    ]
    if depends_of == before.depends and not before.input_versions and not before.is_for_one_cycle:
        return before
    plan, other_dependencies = Plan(), 0
    plan.depends = depends_of
    for part, declared in zip(rules.filters, depends_of, strict=False):
        if (depends := declared.value) == _SKIP:
            continue
        if not depends:
            plan.constant.append(part)
            continue
        plan.is_for_one_cycle |= _collect_versions(depends, part, inputs, plan.input_versions)
        plan.has_time_dependent_filters |= bool(depends & _NOW)
        if depends & _SHARED:
            plan.live_filters.append(part)
        else:
            (plan.usage if depends & _USAGE else plan.static).append(part)
    for scorer, declared in zip(rules.scorers, depends_of[len(rules.filters) :], strict=True):
        if depends := declared.value:  # a score that depends on nothing is the same for all nodes
            plan.is_for_one_cycle |= _collect_versions(depends, scorer, inputs, plan.input_versions)
            if depends & _SHARED:
                plan.live_scorers.append(scorer)
            else:
                plan.scorers.append(scorer)
                other_dependencies |= depends & ~_AMOUNTS
    plan.is_by_amounts = plan.can_score_single_rows and not other_dependencies
    return plan


def _collect_versions(
    depends: int, part: FilterPart | ScorerPart, inputs: Inputs, versions: list[tuple[int, ...]]
) -> bool:
    """Append the versions of what a result depends on; return whether it may differ in the next cycle without them."""
    if not depends & (_NOW | _SOURCE):
        return False
    if part.moment is not None and depends & _NOW:
        versions.append((part.moment(),))
        depends &= ~_NOW
    if depends & _SOURCE and part.watches:
        versions.append(inputs.versions(part.watches))
        return bool(depends & _NOW)
    return bool(depends & (_SOURCE | _NOW))
