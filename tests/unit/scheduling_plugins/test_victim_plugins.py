"""Plugins cdp and pdb: pods that are protected from eviction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.cdp import Cdp
from volcanoio_plugins.scheduling.pdb import Pdb

from tests.unit.scheduling_plugins.views import SessionData, TaskView
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.core import (
    BudgetSpec,
    BudgetStatus,
    Condition,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodStatus,
)

NOW = 10_000.0
PREEMPTOR = TaskView("preemptor")


def running(name: str, *, labels: dict[str, str] | None = None, placed: float | None = None, **more: Any) -> TaskView:
    conditions: tuple[Condition, ...] = ()
    if placed is not None:
        at = datetime.fromtimestamp(placed, UTC).isoformat()
        conditions = (Condition(type="PodScheduled", status="True", last_transition_time=at),)
    meta = ObjectMeta(name=name, namespace="ns", labels=labels or {}, annotations=more.pop("annotations", {}))
    pod = Pod(metadata=meta, status=PodStatus(conditions=conditions))
    return TaskView(name, "ns/job", **{"status": TaskStatus.RUNNING, **more}, pod=pod)


def names(victims: Any) -> list[str]:
    return [victim.name for victim in victims]


def cdp() -> Cdp:
    plugin = Cdp({})
    plugin.open(SessionData(now=NOW))
    return plugin


def test_cdp_protects_a_pod_for_its_cooldown_time_after_it_was_scheduled() -> None:
    cooldown = {"volcano.sh/cooldown-time": "10m"}
    victims = [
        running("fresh", labels=cooldown, placed=NOW - 599),
        running("annotated", annotations=cooldown, placed=NOW - 599),
        running("old", labels=cooldown, placed=NOW - 600),
        running("unprotected", placed=NOW - 1),
        running("unreadable", labels={"volcano.sh/cooldown-time": "x"}, placed=NOW - 1),
        running("bound", labels=cooldown, placed=NOW - 1, status=TaskStatus.BOUND),
        running("unknown", labels=cooldown),
    ]
    spared = ["fresh", "annotated"]
    expected = [name for name in names(victims) if name not in spared]
    assert names(cdp().preemptable(PREEMPTOR, victims)) == expected
    assert names(cdp().reclaimable(PREEMPTOR, victims)) == expected


def budget(name: str, allowed: int, app: str | None, *, disrupted: str = "", namespace: str = "ns") -> Any:
    selector = LabelSelector(match_labels={"app": app} if app else {}) if app is not None else None
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=BudgetSpec(selector=selector),
        status=BudgetStatus(disruptions_allowed=allowed, disrupted_pods={disrupted: "now"} if disrupted else {}),
    )


def allowed(victims: list[TaskView], *budgets: PodDisruptionBudget) -> list[str]:
    plugin = Pdb({})
    known: dict[str, ApiObject] = {each.metadata.key: each for each in budgets}
    plugin.open(SessionData(now=NOW, inputs={"poddisruptionbudgets.policy": known}))
    chosen = names(plugin.preemptable(PREEMPTOR, victims))
    assert chosen == names(plugin.reclaimable(PREEMPTOR, victims)) == names(plugin.permitted(victims))
    return chosen


def test_pdb_offers_no_more_victims_than_a_budget_allows() -> None:
    pods = [running(f"a{at}", labels={"app": "a"}) for at in range(3)]
    assert allowed(pods, budget("b", 2, "a")) == ["a0", "a1"]
    assert allowed(pods, budget("b", 0, "a")) == []
    assert allowed(pods, budget("b", 0, "other")) == ["a0", "a1", "a2"]
    assert allowed(pods, budget("b", 0, "a", namespace="elsewhere")) == ["a0", "a1", "a2"]


def test_pdb_does_not_protect_pods_that_no_budget_selects() -> None:
    pods = [running("bare"), running("other", labels={"app": "b"})]
    assert allowed(pods, budget("b", 0, "a")) == ["bare", "other"]
    assert allowed(pods, budget("b", 0, None)) == ["bare", "other"], "no selector selects nothing"
    assert allowed(pods, budget("b", 1, "")) == ["bare"], "an empty one selects all"


def test_pdb_does_not_count_a_pod_again_whose_disruption_is_in_the_status() -> None:
    pods = [running("gone", labels={"app": "a"}), running("next", labels={"app": "a"})]
    assert allowed(pods, budget("b", 1, "a", disrupted="gone")) == ["gone", "next"]


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=12), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_pdb_never_exceeds_a_budget(covered: list[set[str]], limits: list[int]) -> None:
    pods = [running(f"p{at}", labels={f"app-{app}": "x" for app in apps}) for at, apps in enumerate(covered)]
    budgets = [
        PodDisruptionBudget(
            metadata=ObjectMeta(name=app, namespace="ns"),
            spec=BudgetSpec(selector=LabelSelector(match_labels={f"app-{app}": "x"})),
            status=BudgetStatus(disruptions_allowed=limit),
        )
        for app, limit in zip("abc", limits, strict=True)
    ]
    chosen = set(allowed(pods, *budgets))
    for app, limit in zip("abc", limits, strict=True):
        assert sum(app in covered[int(name[1:])] for name in chosen) <= limit
