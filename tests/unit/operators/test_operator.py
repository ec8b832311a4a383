"""When an operator's plan is asked, and what becomes of what it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
import pytest

from volcanoio.engine.hosting.host import Host
from volcanoio.engine.hosting.object_cache import ObjectCache
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Effect, Patch, Record, StartTimer
from volcanoio.framework.events import Change, EffectFailed, EffectSucceeded, Observed, Synced, TimerFired
from volcanoio.framework.objects import Objects
from volcanoio.framework.operators import Operator, Parts, owner_reference, patch_status, record_event
from volcanoio.framework.reconciler import RECONCILE, ReconcilerState
from volcanoio.model import kinds
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.core import ConfigMap
from volcanoio.model.custom import CustomObject, custom_kind
from volcanoio.model.scheduling import Queue

WIDGET = custom_kind("example.com", "v1", "Widget")


class Widgets(Operator[CustomObject]):
    """A ConfigMap for each widget."""

    name = "widget-controller"
    kind = WIDGET
    owns = (kinds.CONFIG_MAP,)
    looks_up = (kinds.QUEUE,)

    def plan(self, parts: Parts[CustomObject], view: View) -> Iterable[Iterable[Effect | None]]:
        queue = view.lookup.get(kinds.QUEUE, "q")
        data = {"data": {"queue": "there" if queue else "missing"}}
        yield [
            patch_status(WIDGET, parts.subject, {"problem": parts.problem or None}),
            self.apply(parts, kinds.CONFIG_MAP, {"metadata": {"name": "m"}, **data}),
        ]


def widget(uid: str = "u", problem: str = "", **meta: Any) -> CustomObject:
    return CustomObject(
        metadata=ObjectMeta(name="w", namespace="ns", uid=uid, resource_version="1", **meta),
        status={"problem": problem} if problem else {},
    )


def config(owner: str = "u", queue: str = "missing") -> ConfigMap:
    reference = OwnerReference(api_version="example.com/v1", kind="Widget", name="w", uid=owner, controller=True)
    return ConfigMap(
        metadata=ObjectMeta(name="m", namespace="ns", uid="m", owner_references=(reference,)), data={"queue": queue}
    )


class Process:
    """A host with the operator in it."""

    def __init__(self, operator: Operator[CustomObject] | None = None) -> None:
        self.host = Host([operator or Widgets()])
        self.now = 100.0

    def send(self, event: Any) -> list[Effect]:
        """Handle an event, and the timers to reconcile that are due at once; other effects are returned."""
        stamped = msgspec.structs.replace(event, at=self.now)
        effects = [each for done in self.host.handle(stamped) for stage in done.stages for each in stage]
        timers = [each for each in effects if isinstance(each, StartTimer) and each.name == RECONCILE]
        return [each for each in effects if each not in timers] + [each for one in timers for each in self.fire(one)]

    def fire(self, timer: StartTimer) -> list[Effect]:
        return self.send(TimerFired(controller="widget-controller", key="ns/w", name=timer.name))

    def sees(self, resource: str, obj: Any, change: Change = Change.APPEARED) -> list[Effect]:
        return self.send(Observed(resource=resource, change=change, object=obj))

    def listed(self) -> list[Effect]:
        resources = (WIDGET.resource, kinds.CONFIG_MAP.resource, kinds.QUEUE.resource)
        return [each for name in resources for each in self.send(Synced(resource=name))]

    def comes_back(self, code: int = 0) -> list[Effect]:
        """The first effect in flight succeeds, or is refused."""
        effect_id = next(iter(self.host["widget-controller"].in_flight("ns/w")))
        where: dict[str, Any] = {"controller": "widget-controller", "key": "ns/w", "effect_id": effect_id}
        return self.send(EffectFailed(**where, code=code, message="no room") if code else EffectSucceeded(**where))


def test_nothing_is_planned_before_all_is_listed() -> None:
    process = Process()
    assert process.sees(WIDGET.resource, widget()) == []
    (created,) = process.listed()
    assert isinstance(created, Create)
    assert created.manifest == {
        "metadata": {"name": "m", "namespace": "ns", "ownerReferences": [owner_reference(WIDGET, widget())]},
        "data": {"queue": "missing"},
    }


def test_nothing_is_planned_while_writes_are_under_way() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget())
    process.listed()
    assert process.sees(WIDGET.resource, widget(labels={"a": "1"}), Change.CHANGED) == []
    assert process.sees(kinds.CONFIG_MAP.resource, config()) == []
    assert process.comes_back() == []


def test_a_lookup_that_changes_asks_again() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget())
    process.sees(kinds.CONFIG_MAP.resource, config())
    assert process.listed() == []
    (patch,) = process.sees(kinds.QUEUE.resource, Queue(metadata=ObjectMeta(name="q")))
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"queue": "there"}}


def test_objects_of_an_older_owner_with_the_name_are_not_seen() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget(uid="new"))
    process.sees(kinds.CONFIG_MAP.resource, config(owner="old"))
    (created,) = process.listed()
    assert isinstance(created, Create)


def test_a_refusal_is_passed_to_the_plan_and_retried_with_back_off() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget())
    process.listed()
    timer, reported = process.comes_back(code=403)
    assert isinstance(timer, StartTimer)
    assert timer.due == 101.0
    assert isinstance(reported, Patch)
    assert reported.patch == {"status": {"problem": "no room"}}
    assert process.sees(WIDGET.resource, widget(problem="no room"), Change.CHANGED) == []
    assert process.comes_back() == []
    process.now = timer.due
    (created,) = process.send(TimerFired(controller="widget-controller", key="ns/w", name=timer.name))
    assert isinstance(created, Create)
    (timer,) = process.comes_back(code=403)
    assert isinstance(timer, StartTimer)
    assert timer.due == 103.0


def test_a_refused_status_is_written_again_only_after_the_back_off() -> None:
    process = Process()
    process.sees(kinds.CONFIG_MAP.resource, config())
    process.sees(WIDGET.resource, widget(problem="an old one"))
    (reported,) = process.listed()
    assert isinstance(reported, Patch)
    (timer,) = process.comes_back(code=403)
    assert isinstance(timer, StartTimer)


def test_a_problem_is_over_once_a_plan_was_carried_out() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget())
    process.listed()
    timer, _ = process.comes_back(code=403)
    assert isinstance(timer, StartTimer)
    process.sees(WIDGET.resource, widget(problem="no room"), Change.CHANGED)
    process.comes_back()
    process.now = timer.due
    process.send(TimerFired(controller="widget-controller", key="ns/w", name=timer.name))
    process.comes_back()
    state: ReconcilerState = process.host["widget-controller"].state("ns/w")
    assert (state.failure, state.failures) == (None, 0)


def test_an_object_that_is_deleted_is_left_to_the_garbage_collector() -> None:
    process = Process()
    process.sees(WIDGET.resource, widget(deletion_timestamp="2026-01-01T00:00:00Z"))
    assert process.listed() == []
    assert process.sees(WIDGET.resource, widget(), Change.GONE) == []
    assert process.host["widget-controller"].keys == []


def test_rules_follow_from_the_kinds() -> None:
    granted = {(name, verb) for rule in Widgets().rules for name in rule.resources for verb in rule.verbs}
    assert {("widgets", "watch"), ("widgets/status", "patch"), ("configmaps", "delete"), ("queues", "list")} <= granted
    assert ("queues", "patch") not in granted


class Reminders(Operator[CustomObject]):
    """Records an Event after its write, and starts a timer, in every plan."""

    name = "widget-controller"
    kind = WIDGET
    owns = (kinds.CONFIG_MAP,)
    plans = 0

    def plan(self, parts: Parts[CustomObject], view: View) -> Iterable[Iterable[Effect | None]]:
        self.plans += 1
        yield [self.apply(parts, kinds.CONFIG_MAP, {"metadata": {"name": "m"}})]
        yield [record_event(WIDGET, parts.subject, "Made", "a map"), StartTimer(name="look", due=view.now + 5)]


def test_effects_that_are_not_writes_keep_their_stage_and_a_timer_plans_again() -> None:
    operator = Reminders()
    process = Process(operator)
    process.sees(WIDGET.resource, widget())
    created, record, timer = process.listed()
    assert (type(created), type(record), type(timer)) == (Create, Record, StartTimer)
    process.sees(kinds.CONFIG_MAP.resource, config())
    process.comes_back()
    before = operator.plans
    assert isinstance(timer, StartTimer)
    assert [type(each) for each in process.fire(timer)] == [Record, StartTimer]
    assert operator.plans == before + 1


class Hasty(Operator[CustomObject]):
    """Forgets the brackets."""

    name = "hasty-controller"
    kind = WIDGET
    owns = (kinds.CONFIG_MAP,)

    def plan(self, parts: Parts[CustomObject], view: View) -> Any:
        yield patch_status(WIDGET, parts.subject, {"state": "there"})


def test_a_plan_that_yields_an_effect_instead_of_a_list_gets_the_fix() -> None:
    hasty, store = Hasty(), ObjectCache()
    store.fold(Observed(resource=WIDGET.resource, change=Change.APPEARED, object=widget()))
    view = View(key="ns/w", now=1.0, synced=True, lookup=cast("Any", None), objects=Objects(store))
    with pytest.raises(TypeError, match=r"plan gave Patch instead of a list of effects; write yield \[...\]"):
        hasty.reduce(hasty.start("ns/w"), TimerFired(controller=hasty.name, key="ns/w", name=RECONCILE), view)
