"""A `Reconciler` on the host: changes are taken together, plans follow one another, refusals are repeated later."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from volcanoio.engine.hosting.controller_host import Dispatch
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.effects import Create, Effect, Record, StartTimer
from volcanoio.framework.events import (
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import BACKOFF, NO_CHANGES, Plan, Reconciler, ReconcileView, Write, WriteEvents
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.core import ConfigMap, Pod
from volcanoio.model.kinds import CONFIG_MAP, NODE, POD, object_reference


class OnePodEach(Reconciler):
    """A pod for each ConfigMap; a pod without a controller concerns all of its namespace."""

    name = "one-pod-each"
    primary = CONFIG_MAP
    reads = (POD,)

    def __init__(self) -> None:
        self.views: list[ReconcileView] = []

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        if event.resource == CONFIG_MAP.resource:
            return (event.obj.metadata.key,)
        return [one.metadata.key for one in objects.namespace(CONFIG_MAP, event.obj.metadata.namespace, ConfigMap)]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        self.views.append(view)
        owner = view.objects.get(CONFIG_MAP, key, ConfigMap)
        if owner is None or view.is_backing_off or view.objects.controlled(POD, owner.metadata.uid, Pod):
            return NO_CHANGES
        manifest = {"metadata": {"namespace": owner.metadata.namespace, "name": f"pod-{view.suffix()}"}}
        events = WriteEvents(
            object_reference(CONFIG_MAP, owner), on_success=("Made", "a pod"), on_failure=("Refused", "no pod: ")
        )
        return Plan(((Write(Create(resource=POD.resource, manifest=manifest), events),),))


class Rig:
    """The host, with effects by type; `fire` lets the timer of that name end."""

    def __init__(self, reconciler: OnePodEach | None = None) -> None:
        self.reconciler = reconciler or OnePodEach()
        self.host = Host([self.reconciler])
        self.effects: list[Effect] = []

    def take(self, *events: ControllerEvent) -> list[Effect]:
        dispatches: list[Dispatch] = [one for event in events for one in self.host.handle(event)]
        effects = [effect for one in dispatches for stage in one.stages for effect in stage]
        self.effects += effects
        return effects

    def fire(self, name: str) -> list[Effect]:
        return self.take(TimerFired(controller=OnePodEach.name, key="ns/c", name=f"reconciler/{name}"))


def config_map(change: Change = Change.APPEARED) -> Observed:
    obj = ConfigMap(metadata=ObjectMeta(name="c", namespace="ns", uid="u"))
    return Observed(resource=CONFIG_MAP.resource, change=change, object=obj)


def pod(owner: str = "u") -> Observed:
    owners = (OwnerReference(uid=owner, controller=True),)
    obj = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="p", owner_references=owners))
    return Observed(resource=POD.resource, change=Change.APPEARED, object=obj)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.take(config_map(), Synced(resource=CONFIG_MAP.resource), Synced(resource=POD.resource))
    return rig


def test_nothing_happens_before_all_is_listed_and_then_every_key_is_queued() -> None:
    rig = Rig()
    assert not rig.take(config_map(), Synced(resource=CONFIG_MAP.resource))
    (timer,) = rig.take(Synced(resource=POD.resource))
    assert isinstance(timer, StartTimer)


def test_changes_are_taken_together(rig: Rig) -> None:
    assert not rig.take(config_map(Change.CHANGED), pod("other"), pod("other"))
    rig.fire("reconcile")
    assert len(rig.reconciler.views) == 1


def test_changes_during_a_plan_wait_for_its_end(rig: Rig) -> None:
    (write,) = rig.fire("reconcile")
    assert isinstance(write, Create)
    assert not rig.take(pod())
    done = EffectSucceeded(controller=OnePodEach.name, key="ns/c", effect_id=write.id)
    event, again = rig.take(done)
    assert isinstance(event, Record)
    assert (event.reason, event.component) == ("Made", "one-pod-each")
    assert isinstance(again, StartTimer)
    assert not rig.fire("reconcile")


def test_a_refused_plan_is_reported_and_repeated_after_the_back_off(rig: Rig) -> None:
    (write,) = rig.fire("reconcile")
    refusal = EffectFailed(
        controller=OnePodEach.name, key="ns/c", effect_id=write.id, code=403, reason="Forbidden", message="quota"
    )
    event, retry, again = rig.take(refusal)
    assert isinstance(event, Record)
    assert (event.reason, event.message) == ("Refused", "no pod: quota")
    assert isinstance(retry, StartTimer)
    assert retry.due == BACKOFF.delay(1)
    assert isinstance(again, StartTimer)
    assert not rig.fire("reconcile"), "only its status may be written now"
    view = rig.reconciler.views[-1]
    assert view.is_backing_off
    assert view.failure is not None
    assert view.failure.code == 403
    rig.fire("retry")
    (second,) = rig.fire("reconcile")
    assert isinstance(second, Create)


def test_a_key_is_forgotten_with_its_object(rig: Rig) -> None:
    rig.take(pod())
    rig.fire("reconcile")
    assert rig.host[OnePodEach.name].keys == ["ns/c"]
    rig.take(config_map(Change.GONE))
    rig.fire("reconcile")
    assert not rig.host[OnePodEach.name].keys


def test_reading_a_kind_that_is_not_declared_is_an_error(rig: Rig) -> None:
    rig.fire("reconcile")
    with pytest.raises(LookupError, match="add it to the controller's reads"):
        rig.reconciler.views[-1].objects.by_key(NODE)


class Counting(OnePodEach):
    """Counts its reconciliations of a key in the key's memory."""

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        self.views.append(view)
        return Plan(memory=(view.memory or 0) + 1)


def test_the_memory_of_a_key_ends_with_its_object() -> None:
    rig = Rig(Counting())
    rig.take(config_map(), Synced(resource=CONFIG_MAP.resource), Synced(resource=POD.resource))
    for change in (Change.CHANGED, Change.CHANGED, Change.GONE, Change.APPEARED):
        rig.fire("reconcile")
        rig.take(config_map(change))
    rig.fire("reconcile")
    assert [view.memory for view in rig.reconciler.views] == [None, 1, 2, 3, None]
