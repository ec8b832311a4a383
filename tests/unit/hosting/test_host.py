"""The pure part of the host, driven event by event with a controller that records its events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.hosting.controller_host import REBUILD_TIMER, Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.decisions import Abstain
from volcanoio.framework.effects import Ask, Delete, Record, StartTimer, StopTimer
from volcanoio.framework.events import (
    Answered,
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Relisting,
    Synced,
    TimerFired,
)
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, ObjectMeta, ObjectReference
from volcanoio.model.core import ConfigMap, PriorityClass, Secret

PRIMARY, SECONDARY = kinds.CONFIG_MAP, kinds.SECRET


def owner_keys(obj: ApiObject) -> Iterable[str]:
    return [obj.metadata.labels["owner"]] if "owner" in obj.metadata.labels else []


class Notes(msgspec.Struct, frozen=True):
    """State: received events, and existing objects."""

    reported: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


class Notebook:
    """Deletes what is labelled `delete`, asks for what is labelled `ask`, raises on what is labelled `bomb`."""

    name = "notebook"
    inputs = (Input(PRIMARY, lambda obj: [obj.metadata.key]), Input(SECONDARY, owner_keys))
    references: tuple[Reference, ...] = (Reference(kinds.PRIORITY_CLASS),)
    rules: tuple[Rule, ...] = ()

    def __init__(self) -> None:
        self.views: list[tuple[str, bool, tuple[int, ...]]] = []

    def start(self, key: str) -> Notes:
        return Notes()

    def reduce(self, state: Notes, event: ControllerEvent, view: View) -> Step[Notes]:
        self.views.append((view.key, view.synced, tuple(view.in_flight)))
        reported = (*state.reported, f"{type(event).__name__}@{event.seq}")
        if not isinstance(event, Observed) or event.resource not in (PRIMARY.resource, SECONDARY.resource):
            return Step(msgspec.structs.replace(state, reported=reported))
        meta = event.obj.metadata
        if "bomb" in meta.labels:
            raise RuntimeError(meta.labels["bomb"])
        here = set(state.objects)
        gone = event.change is Change.GONE or (
            event.resource == SECONDARY.resource and meta.labels.get("owner") != view.key
        )
        (here.discard if gone else here.add)(meta.name)
        if "class" in meta.labels:
            view.lookup.get(kinds.PRIORITY_CLASS, meta.labels["class"])
        stages: list[tuple[Any, ...]] = []
        if "delete" in meta.labels:
            delete = Delete(resource=event.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)
            stages = [(delete, Record(regarding=ObjectReference(), type="Normal", reason="x", message="y")), (delete,)]
        if "timer" in meta.labels:
            stages = [(StartTimer(name=meta.labels["timer"], due=view.now + 60),)]
        if "ask" in meta.labels:
            stages = [(Ask(question=7, event=LifecycleEvent(name="PodFailed", job_uid="u", version=0)),)]
        return Step(Notes(reported, tuple(sorted(here))) if here else None, tuple(stages))


class Bench:
    """A host, a running seq, and its reported faults."""

    def __init__(self) -> None:
        self.controller = Notebook()
        self.faults: list[InvariantError] = []
        self.host = Host([self.controller], on_fault=self.faults.append)
        self.seq = 0

    def send(self, event: ControllerEvent) -> list[Dispatch]:
        self.seq += 1
        return self.host.handle(msgspec.structs.replace(event, seq=self.seq, at=event.at or float(self.seq)))

    def sync(self) -> None:
        for kind in (PRIMARY, SECONDARY, kinds.PRIORITY_CLASS):
            self.send(Synced(resource=kind.resource))

    def reported(self, key: str = "ns/a") -> tuple[str, ...]:
        state = self.host["notebook"].state(key)
        return state.reported if state else ()


def meta(name: str, **labels: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", labels=labels)


def appeared(name: str, **labels: str) -> Observed:
    return Observed(resource=PRIMARY.resource, change=Change.APPEARED, object=ConfigMap(metadata=meta(name, **labels)))


def gone(name: str, **labels: str) -> Observed:
    return Observed(resource=PRIMARY.resource, change=Change.GONE, object=ConfigMap(metadata=meta(name, **labels)))


def secret(name: str, owner: str, before: str | None = None) -> Observed:
    return Observed(
        resource=SECONDARY.resource,
        change=Change.CHANGED if before else Change.APPEARED,
        object=Secret(metadata=meta(name, owner=owner)),
        previous=Secret(metadata=meta(name, owner=before)) if before else None,
    )


def test_an_object_that_moves_to_another_key_concerns_both() -> None:
    bench = Bench()
    for event in (appeared("a"), appeared("b"), secret("s", "ns/a"), secret("s", "ns/b", before="ns/a")):
        bench.send(event)
    assert bench.host["notebook"].state("ns/a").objects == ("a",)
    assert bench.host["notebook"].state("ns/b").objects == ("b", "s")


def test_every_key_is_reduced_once_after_all_lists() -> None:
    bench = Bench()
    bench.send(appeared("a"))
    bench.send(Synced(resource=PRIMARY.resource))
    bench.send(Synced(resource=SECONDARY.resource))
    assert bench.reported() == ("Observed@1",)
    bench.send(Synced(resource=kinds.PRIORITY_CLASS.resource))
    assert bench.reported() == ("Observed@1", "Synced@4")
    assert [synced for _, synced, _ in bench.controller.views] == [False, True]


def test_a_relist_closes_the_barrier_until_it_is_listed_again() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a"))
    bench.send(Relisting(resource=SECONDARY.resource))
    bench.send(appeared("b"))
    bench.send(Synced(resource=SECONDARY.resource))
    assert [(key, synced) for key, synced, _ in bench.controller.views] == [
        ("ns/a", True),
        ("ns/b", False),
        ("ns/a", True),
        ("ns/b", True),
    ]


def test_a_reference_wakes_only_the_keys_that_looked_it_up() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a", **{"class": "high"}))
    bench.send(appeared("b"))
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=1)
    bench.send(Observed(resource=kinds.PRIORITY_CLASS.resource, change=Change.APPEARED, object=high))
    assert bench.reported("ns/a") == ("Observed@4", "Observed@6")
    assert bench.reported("ns/b") == ("Observed@5",)
    bench.send(gone("a"))
    bench.send(Observed(resource=kinds.PRIORITY_CLASS.resource, change=Change.GONE, object=high))
    assert bench.host["notebook"].keys == ["ns/b"]
    assert bench.reported("ns/b") == ("Observed@5",)


def test_a_lookup_of_an_undeclared_kind_is_an_error() -> None:
    class Careless(Notebook):
        references = ()

    faults: list[InvariantError] = []
    host = Host([Careless()], on_fault=faults.append)
    host.handle(appeared("a", **{"class": "high"}))
    assert "add Reference(PriorityClass)" in str(faults[0])


def test_effects_are_numbered_and_in_flight_until_their_outcome() -> None:
    bench = Bench()
    bench.sync()
    (dispatch,) = bench.send(appeared("a", delete="yes"))
    assert [[type(effect).__name__ for effect in stage] for stage in dispatch.stages] == [
        ["Delete", "Record"],
        ["Delete"],
    ]
    assert [[effect.id for effect in stage] for stage in dispatch.stages] == [[1, 2], [3]]
    assert (dispatch.cause, dispatch.step) == (4, 1)
    assert set(bench.host["notebook"].in_flight("ns/a")) == {1, 3}
    bench.send(EffectSucceeded(controller="notebook", key="ns/a", effect_id=1))
    assert bench.controller.views[-1][2] == (3,)


def test_dropped_effects_leave_with_the_one_that_failed() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a", delete="yes"))
    bench.send(EffectFailed(controller="notebook", key="ns/a", effect_id=1, code=409, dropped=(3,)))
    assert bench.controller.views[-1][2] == ()


def test_a_question_is_in_flight_until_its_own_answer() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a", ask="yes"))
    bench.send(Answered(controller="notebook", key="ns/a", question=6, decision=Abstain()))
    in_flight = [bench.controller.views[-1][2]]
    bench.send(Answered(controller="notebook", key="ns/a", question=7, decision=Abstain()))
    in_flight.append(bench.controller.views[-1][2])
    assert in_flight == [(1,), ()]


def test_outcomes_for_unknown_keys_are_dropped() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a", delete="yes"))
    bench.send(gone("a"))
    seen = len(bench.controller.views)
    for event in (
        EffectSucceeded(controller="notebook", key="ns/a", effect_id=1),
        TimerFired(controller="notebook", key="ns/a", name="t"),
        TimerFired(controller="another", key="ns/a", name="t"),
    ):
        assert bench.send(event) == []
    assert len(bench.controller.views) == seen
    assert set(bench.host["notebook"].in_flight("ns/a")) == {3}


def test_timers_of_a_forgotten_key_are_stopped_so_that_none_fires_into_its_next_life() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a", timer="fired"))
    bench.send(TimerFired(controller="notebook", key="ns/a", name="fired"))
    bench.send(appeared("a", timer="waiting"))
    (dispatch,) = bench.send(gone("a"))
    assert dispatch.stages == ((StopTimer(id=3, name="waiting"),),)
    assert bench.send(gone("a")) == []


def test_a_reducer_that_raises_stops_its_key_only_and_is_rebuilt_from_the_cache() -> None:
    bench = Bench()
    bench.sync()
    bench.send(appeared("a"))
    bench.send(appeared("b"))
    (dispatch,) = bench.send(appeared("a", bomb="boom"))
    assert dispatch.stages == ((StartTimer(id=1, name=REBUILD_TIMER, due=7.0),),)
    (fault,) = bench.faults
    assert (fault.key, [line.seq for line in fault.history]) == ("ns/a", [4, 6])
    assert "boom" in str(fault)
    bench.send(appeared("b"))
    assert len(bench.reported("ns/b")) == 2
    bench.send(appeared("a"))  # fixed meanwhile, but not reduced before the back-off has passed
    assert bench.reported("ns/a") == ()
    bench.send(TimerFired(controller="notebook", key="ns/a", name=REBUILD_TIMER))
    assert bench.reported("ns/a") == ("Observed@9", "Synced@9")
    assert [synced for key, synced, _ in bench.controller.views if key == "ns/a"][-2:] == [False, True]


def test_a_key_that_stays_broken_is_tried_ever_less_often() -> None:
    bench = Bench()
    bench.sync()
    delays = []
    dispatches = bench.send(appeared("a", bomb="boom"))
    for _ in range(8):
        timer = dispatches[0].stages[0][0]
        assert isinstance(timer, StartTimer)
        delays.append(timer.due - bench.seq)
        bench.seq = int(timer.due)
        dispatches = bench.send(TimerFired(controller="notebook", key="ns/a", name=REBUILD_TIMER))
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


def test_two_controllers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        Host([Notebook(), Notebook()])


names = st.sampled_from("abc")
events = st.one_of(
    st.builds(appeared, names),
    st.builds(lambda name: appeared(name, delete="yes"), names),
    st.builds(lambda name: appeared(name, bomb="boom"), names),
    st.builds(lambda name: appeared(name, timer="t"), names),
    st.builds(gone, names),
    st.builds(lambda name, owner: secret(name, f"ns/{owner}"), names, names),
    st.builds(lambda name, new, old: secret(name, f"ns/{new}", before=f"ns/{old}"), names, names, names),
    st.builds(
        lambda key, effect: EffectSucceeded(controller="notebook", key=f"ns/{key}", effect_id=effect),
        names,
        st.integers(1, 9),
    ),
    st.builds(lambda key: TimerFired(controller="notebook", key=f"ns/{key}", name=REBUILD_TIMER), names),
    st.sampled_from([Relisting(resource=SECONDARY.resource), Synced(resource=SECONDARY.resource)]),
)


@given(st.lists(events, max_size=40))
def test_a_journal_replays_to_the_same_dispatches(history: list[ControllerEvent]) -> None:
    """The same events in the same order: same steps, ids, stages and faults; and the same states at the end."""
    runs = []
    for _ in range(2):
        bench = Bench()
        bench.sync()
        dispatches = [bench.send(event) for event in history]
        notebook = bench.host["notebook"]
        runs.append((dispatches, [str(fault) for fault in bench.faults], {k: notebook.state(k) for k in notebook.keys}))
    assert runs[0] == runs[1]


@given(st.lists(events, max_size=40))
def test_effect_ids_never_repeat_and_only_grow(history: list[ControllerEvent]) -> None:
    bench = Bench()
    ids = [
        effect.id
        for event in history
        for dispatch in bench.send(event)
        for stage in dispatch.stages
        for effect in stage
    ]
    assert ids == sorted(set(ids))


@given(st.lists(st.tuples(st.integers(0, 150), st.booleans(), st.sampled_from("ab")), max_size=150))
def test_objects_of_a_key_stay_in_order_however_many_come_and_go(changes: list[tuple[int, bool, str]]) -> None:
    bench = Bench()
    owners = {f"s-{number:03d}": "ns/a" for number in range(40, 120)}

    def secret(name: str) -> Secret:
        return Secret(metadata=ObjectMeta(name=name, namespace="ns", uid=name, labels={"owner": owners[name]}))

    for name in owners:
        bench.send(Observed(resource=SECONDARY.resource, change=Change.APPEARED, object=secret(name)))
    for number, there, owner in changes:
        name = f"s-{number:03d}"
        previous = secret(name) if name in owners else None
        if there:
            owners[name] = f"ns/{owner}"
            change = Change.CHANGED if previous else Change.APPEARED
            bench.send(Observed(resource=SECONDARY.resource, change=change, object=secret(name), previous=previous))
        elif previous:
            gone = Observed(resource=SECONDARY.resource, change=Change.GONE, object=previous, previous=previous)
            del owners[name]
            bench.send(gone)
        for key in ("ns/a", "ns/b"):
            found = [obj.metadata.name for obj in bench.host["notebook"].objects(key, SECONDARY.resource)]
            assert found == sorted(name for name, its in owners.items() if its == key)
