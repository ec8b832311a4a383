"""The async shell of the controller host on the real bus, with virtual time and an executor that only notes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.controller import Controller, Input, Reference, Rule, Step, View
from volcanoio.framework.decisions import Abstain, Act, Decision
from volcanoio.framework.effects import Ask, Create, Delete, Effect, Patch, Stages, StartTimer
from volcanoio.framework.events import (
    Answered,
    Change,
    ControllerEvent,
    EffectSucceeded,
    Event,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyContext
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, Reconciler, ReconcileView
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Queue
from volcanoio.runtime.controllers.controller_host import ControllerHost, HostOptions
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.policies.policy_set import PolicySet


def of_job(obj: ApiObject) -> Iterable[str]:
    return [f"{obj.metadata.namespace}/{obj.metadata.labels['job']}"] if "job" in obj.metadata.labels else []


class Supervisor:
    """Asks the policies about a failed pod, deletes it if they say restart, and looks again after ten seconds."""

    name = "supervisor"
    inputs = (
        Input(kinds.JOB, lambda obj: [obj.metadata.key]),
        Input(kinds.POD, of_job, label_selector="job"),
    )
    references = (Reference(kinds.PRIORITY_CLASS),)
    rules: tuple[Rule, ...] = ()

    def start(self, key: str) -> tuple[str, ...]:
        return ()

    def reduce(self, state: tuple[str, ...], event: ControllerEvent, view: View) -> Step[tuple[str, ...]]:
        stages: Stages = ()
        match event:
            case Observed(object=Pod() as pod) if pod.status.phase == "Failed" and view.synced:
                asked = LifecycleEvent(name="PodFailed", job_uid="u", version=0, pod=pod.metadata.name)
                stages = ((Ask(question=event.seq, event=asked),),)
            case Observed(object=Pod() as pod) if pod.status.phase == "Mad":
                raise RuntimeError("mad")
            case Answered(decision=Act()):
                delete = Delete(resource="pods", namespace="ns", name="p", uid="uid-p")
                stages = ((delete,), (StartTimer(name="look-again", due=view.now + 10),))
        return Step((*state, type(event).__name__), stages)


class NotingInformers:
    """Notes what is to be watched."""

    def __init__(self) -> None:
        self.watched: dict[str, str] = {}

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> NotingInformers:
        self.watched[kind.resource] = label_selector
        return self

    async def synced(self) -> None:
        return

    async def run(self) -> None:
        await asyncio.Event().wait()

    def announce(self) -> None:
        raise AssertionError("this host is no standby")


class NotingExecutor:
    """Hands local effects to the host, and writes succeed when `succeed` is called."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.host: ControllerHost | None = None
        self.sent: list[Effect] = []
        self.submitted: list[tuple[str, str, Stages, int]] = []
        self._later: list[tuple[str, str, Effect, Stages]] = []

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        self.submitted.append((controller, key, stages, cause))
        self._go_on(controller, key, stages)

    def _go_on(self, controller: str, key: str, stages: Stages) -> None:
        assert self.host is not None
        for position, stage in enumerate(stages):
            for effect in stage:
                if isinstance(effect, Create | Patch | Delete):
                    self.sent.append(effect)
                    self._later.append((controller, key, effect, stages[position + 1 :]))
                    return
                self.host.local(controller, key, effect)  # type: ignore[arg-type]  # no Record in these tests

    def succeed(self) -> None:
        later, self._later = self._later, []
        for controller, key, effect, rest in later:
            self.bus.publish([EffectSucceeded(controller=controller, key=key, effect_id=effect.id)])
            self._go_on(controller, key, rest)


class Restarts:
    """Says restart, at once."""

    name = "restarts"
    seen: list[PolicyContext]

    def __init__(self) -> None:
        self.seen = []

    async def decide(self, context: PolicyContext) -> Decision:
        self.seen.append(context)
        return Act(action=JobAction.RESTART_JOB)


class Bench:
    """Everything around one supervisor."""

    def __init__(self, *policies: Restarts, controllers: Sequence[Controller[Any]] = ()) -> None:
        self.clock = VirtualClock()
        self.bus = EventBus(self.clock.now)
        self.informers = NotingInformers()
        self.probe = PrometheusProbe(process=False)
        self.host = ControllerHost(
            controllers or [Supervisor()],
            bus=self.bus,
            informers=self.informers,
            clock=self.clock,
            options=HostOptions(policies=PolicySet.of(policies, inline=True), probe=self.probe),
        )
        self.executor = NotingExecutor(self.bus)
        self.executor.host = self.host
        self.journal: list[Event] = []
        self.bus.subscribe(self._record)

    def _record(self, batch: Batch) -> None:
        self.journal += batch

    @property
    def state(self) -> tuple[str, ...]:
        state = self.host.host["supervisor"].state("ns/j")
        assert state is None or isinstance(state, tuple)
        return state or ()

    def start(self) -> None:
        job = Job(metadata=ObjectMeta(namespace="ns", name="j", uid="u"))
        self.bus.publish([Observed(resource=kinds.JOB.resource, change=Change.APPEARED, object=job)])
        for kind in (kinds.JOB, kinds.POD, kinds.PRIORITY_CLASS):
            self.bus.publish([Synced(resource=kind.resource)])

    def pod(self, phase: str) -> None:
        pod = Pod(metadata=ObjectMeta(namespace="ns", name="p", uid="uid-p", labels={"job": "j"}))
        pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))
        self.bus.publish([Observed(resource="pods", change=Change.APPEARED, object=pod)])

    def last(self, kind: type[Event]) -> Event:
        return next(event for event in reversed(self.journal) if isinstance(event, kind))


@asynccontextmanager
async def bench(*policies: Restarts, controllers: Sequence[Controller[Any]] = ()) -> AsyncIterator[Bench]:
    made = Bench(*policies, controllers=controllers)
    task = asyncio.create_task(made.host.run(made.executor))
    await run_until_idle()
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_inputs_and_references_are_watched_with_their_selectors() -> None:
    async with bench() as on:
        assert on.informers.watched == {
            "jobs.batch.volcano.sh": "",
            "pods": "job",
            "priorityclasses.scheduling.k8s.io": "",
        }


async def test_a_question_is_answered_within_the_step_and_its_causes_lead_back() -> None:
    policy = Restarts()
    async with bench(policy) as on:
        on.start()
        on.pod("Failed")
        failed = on.last(Observed).seq
        answered = on.last(Answered)
        assert (answered.seq, answered.cause) == (failed + 1, failed)
        assert [type(effect).__name__ for effect in on.executor.sent] == ["Delete"]
        (context,) = policy.seen
        assert (context.job.metadata.uid, [pod.metadata.name for pod in context.pods]) == ("u", ["p"])


async def test_a_timer_of_a_later_stage_starts_after_the_one_before_and_comes_back_as_an_event() -> None:
    async with bench(Restarts()) as on:
        on.start()
        on.pod("Failed")
        await on.clock.advance(60)
        assert "TimerFired" not in on.state
        on.executor.succeed()
        due = on.last(Answered).at + 10
        await on.clock.advance(0)
        fired = on.last(TimerFired)
        assert (due, fired.cause, on.state[-1]) == (1010.0, on.last(Answered).seq, "TimerFired")


async def test_a_question_about_a_deleted_job_has_an_empty_answer() -> None:
    policy = Restarts()
    async with bench(policy) as on:
        for kind in (kinds.JOB, kinds.POD, kinds.PRIORITY_CLASS):
            on.bus.publish([Synced(resource=kind.resource)])
        on.pod("Failed")
        answered = on.last(Answered)
        assert isinstance(answered, Answered)
        assert (answered.decision, policy.seen) == (Abstain(), [])


class Indexed(Restarts):
    """Reads nodes."""

    indexes = (kinds.NODE.resource,)


async def test_kinds_that_a_policy_reads_are_listed_before_it_is_asked() -> None:
    policy = Indexed()
    async with bench(policy) as on:
        assert "nodes" in on.informers.watched
        on.start()
        assert not on.host.host.synced
        node = Node(metadata=ObjectMeta(name="n1"))
        on.bus.publish([Observed(resource="nodes", change=Change.APPEARED, object=node), Synced(resource="nodes")])
        assert on.host.host.synced
        on.pod("Failed")
        assert dict(policy.seen[0].indexes["nodes"]) == {"n1": node}


async def test_without_policies_there_is_no_decision() -> None:
    async with bench() as on:
        on.start()
        on.pod("Failed")
        assert on.executor.sent == []
        assert on.state[-1] == "Answered"


async def test_a_broken_key_is_counted_and_rebuilt_after_its_back_off() -> None:
    async with bench() as on:
        on.start()
        on.pod("Mad")
        assert list(on.state) == []
        assert on.probe.value("volcanoio_controller_faults_total", controller="supervisor") == 1
        on.pod("Running")
        await on.clock.advance(1)
        assert on.state == ("Observed", "Observed", "Synced")


async def test_readiness_waits_for_every_list() -> None:
    async with bench() as on:
        assert not on.host.host.synced
        on.start()
        assert on.host.host.synced


async def test_the_bus_journal_replays_through_the_pure_half_to_the_same_steps() -> None:
    """What was submitted live is what the events alone give again: numbers, stages and causes."""
    async with bench(Restarts()) as on:
        on.start()
        on.pod("Failed")
        on.executor.succeed()
        await on.clock.advance(60)
        on.pod("Mad")
        await on.clock.advance(60)
        replayed = Host([Supervisor()])
        again = [
            (dispatch.controller, dispatch.key, dispatch.stages, dispatch.cause)
            for event in on.journal
            for dispatch in replayed.handle(event)  # type: ignore[arg-type]  # only controller events are in it
        ]
        assert again == on.executor.submitted
        assert len(again) > 3
        assert replayed["supervisor"].state("ns/j") == on.host.host["supervisor"].state("ns/j")


class Sleeper(Reconciler):
    """Wakes for queues named q and reconciles them every minute."""

    name = "sleeper"
    primary = kinds.QUEUE
    reads = (kinds.NODE,)
    resync_period = 60.0
    is_lazy = True

    def __init__(self) -> None:
        self.reconciled: list[float] = []

    def wakes(self, event: Observed) -> bool:
        return event.obj.metadata.name == "q"

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        return (event.obj.metadata.key,) if event.resource == self.primary.resource else ()

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        self.reconciled.append(view.now)
        return NO_CHANGES


async def test_a_lazy_reconciler_reads_nothing_before_it_wakes_and_is_reconciled_again_after_its_period() -> None:
    sleeper = Sleeper()
    async with bench(controllers=[sleeper]) as on:
        queue, node = kinds.QUEUE.resource, kinds.NODE.resource
        for name, watched in (("other", {queue}), ("q", {queue, node})):
            obj = Queue(metadata=ObjectMeta(name=name))
            on.bus.publish([Observed(resource=queue, change=Change.APPEARED, object=obj)])
            assert on.informers.watched.keys() == watched
        start = on.clock.now()
        on.bus.publish([Synced(resource=queue)])
        await on.clock.advance(60)
        assert not sleeper.reconciled, "its nodes are not listed"
        on.bus.publish([Synced(resource=node)])
        await on.clock.advance(60)
        assert sleeper.reconciled == [start + 60, start + 60, start + 120, start + 120]


async def test_a_lazy_reconciler_whose_wakes_raises_is_woken_and_stops_no_other() -> None:
    class Faulty(Sleeper):
        name = "faulty"

        def wakes(self, event: Observed) -> bool:
            raise ValueError("no such field")

    async with bench(controllers=[Faulty(), Sleeper()]) as on:
        queue = kinds.QUEUE.resource
        obj = Queue(metadata=ObjectMeta(name="other"))
        on.bus.publish([Observed(resource=queue, change=Change.APPEARED, object=obj)])
        assert on.informers.watched.keys() == {queue, kinds.NODE.resource}
        obj = Queue(metadata=ObjectMeta(name="q"))
        on.bus.publish([Observed(resource=queue, change=Change.APPEARED, object=obj)])


async def test_a_lazy_reconciler_can_be_woken_by_name() -> None:
    async with bench(controllers=[Sleeper()]) as on:
        on.host.wake("sleeper")
        assert kinds.NODE.resource in on.informers.watched


def test_the_faults_of_controllers_and_policies_begin_at_zero() -> None:
    page = Bench(Restarts()).probe.page().decode()
    assert 'volcanoio_controller_faults_total{controller="supervisor"} 0.0' in page
    assert 'volcanoio_policy_faults_total{policy="restarts"} 0.0' in page
