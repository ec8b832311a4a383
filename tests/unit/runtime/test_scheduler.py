"""The scheduler actor: when it decides, what it sends, and that a journal of it replays to the same decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.scenario.scheduling.harness import group, node, pod, pods, profile, queue
from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.scheduler_rig import Rig
from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.bus.event_bus import Batch
from volcanoio.bus.records import Codec, EventRecord
from volcanoio.engine.scheduling.cluster.state import REQUIRED_RESOURCES, ClusterState, StateOptions
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.config.profile import WATCHABLE
from volcanoio.engine.scheduling.offline.replay import ReplayedCycle, replay
from volcanoio.framework.events import Event, Observed
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest
from volcanoio.framework.scheduling_events import ArrivalsFolded, ConfigurationChanged, CycleOpened, Decided
from volcanoio.kube.client import Client
from volcanoio.kube.transport import NotSent, Response
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node
from volcanoio.runtime.scheduler.scheduler import ensure_queues

CLUSTER = (queue("default"), node("n1", cpu="4"), node("n2", cpu="4"))


def gang(name: str, size: int, cpu: str = "1") -> list[Manifest]:
    return [group(name, size), *pods(name, size, name, cpu=cpu)]


async def test_a_gang_is_bound_as_one_batch_and_every_step_names_its_cause() -> None:
    rig = Rig()
    async with rig.running(*CLUSTER):
        await rig.clock.advance(0.5)
        first = len(rig.opened)
        rig.put(*gang("a", 3))
        await run_until_idle()
        assert [(batch.group, len(batch.binds)) for batch in rig.batches] == [("ns/a", 3)]
        opened = rig.opened[first]
        assert opened.upto == opened.cause == max(e.seq for e in rig.events if e.seq < opened.seq)
        said = rig.of(Decided)[0]
        assert (said.cause, said.cycle) == (opened.seq, opened.cycle)
        assert all(event.cause == said.seq for event in rig.events if type(event).__name__ == "BindDone")
    assert {"nodes", "pods"} < set(rig.informers.asked)


async def test_the_first_event_after_idleness_starts_a_cycle_at_once_and_idleness_lasts_at_most_the_period() -> None:
    rig = Rig(schedule_period=1.0)
    async with rig.running(*CLUSTER):
        await rig.clock.advance(0.5)
        before = len(rig.opened)
        rig.put(*gang("a", 2))
        await run_until_idle()
        assert len(rig.opened) > before
        await rig.clock.advance(0.1)
        quiet = len(rig.opened)
        await rig.clock.advance(0.8)
        assert len(rig.opened) == quiet
        await rig.clock.advance(1.0)
        assert len(rig.opened) > quiet


@pytest.mark.parametrize("debounce", [0.0, 0.005, 0.05])
async def test_events_behind_a_cycle_wait_for_the_debounce(debounce: float) -> None:
    rig = Rig(debounce=debounce)
    async with rig.running(*CLUSTER):
        await rig.clock.advance(0.5)
        rig.put(*gang("a", 2))
        await run_until_idle()
        cycles = len(rig.opened)
        rig.put(*gang("b", 2))
        await run_until_idle()
        if debounce:
            assert len(rig.opened) == cycles
            await rig.clock.advance(debounce)
        assert [batch.group for batch in rig.batches] == ["ns/a", "ns/b"]


async def test_nothing_is_decided_before_everything_is_listed_and_none_while_relisting() -> None:
    rig = Rig()
    async with rig.running(*CLUSTER, *gang("a", 2), synced=False):
        rig.sync({*REQUIRED_RESOURCES, *WATCHABLE} - {kinds.PRIORITY_CLASS.resource})
        await rig.clock.advance(3.0)
        assert not rig.opened
        rig.sync([kinds.PRIORITY_CLASS.resource])
        await run_until_idle()
        assert len(rig.batches) == 1
        rig.relist(kinds.NODE.resource)
        await run_until_idle()
        cycles = len(rig.opened)
        rig.put(*gang("b", 2))
        await rig.clock.advance(3.0)
        assert len(rig.opened) == cycles
        rig.sync([kinds.NODE.resource])
        await rig.clock.advance(1.0)
        assert [batch.group for batch in rig.batches] == ["ns/a", "ns/b"]


async def test_without_leadership_no_cycle_opens() -> None:
    leading = False
    rig = Rig(leading=lambda: leading)
    async with rig.running(*CLUSTER, *gang("a", 2)):
        await rig.clock.advance(2.0)
        assert not rig.opened
        leading = True
        await rig.clock.advance(1.0)
        assert len(rig.batches) == 1


async def test_a_refused_gang_is_bound_again() -> None:
    rig = Rig()
    async with rig.running(*CLUSTER):
        rig.refuse = lambda _: len(rig.batches) == 1
        rig.put(*gang("a", 3))
        await rig.clock.advance(1.0)
        assert [len(batch.binds) for batch in rig.batches] == [3, 3]


class SteppingClock(VirtualClock):
    """A clock on which looking takes time."""

    def monotonic(self) -> float:
        self._now += 0.01
        return self._now


async def test_a_cycle_over_its_budget_closes_between_jobs_and_the_next_opens_at_once() -> None:
    rig = Rig(clock=SteppingClock(), budget=0.02)
    gangs = [item for number in range(6) for item in gang(f"g{number}", 1)]
    async with rig.running(*CLUSTER, *gangs):
        for _ in gangs:
            await run_until_idle()
        cut = [event for event in rig.closed if event.where]
        assert cut
        assert {event.where for event in cut} <= {"enqueue", "allocate"}
        assert all(event.boundaries > 0 for event in cut)
        assert sorted(batch.group for batch in rig.batches) == [f"ns/g{number}" for number in range(6)]
    assert_same(rig.events)


AGENTS = StateOptions(agent_schedulers=frozenset({"agent-scheduler"}))


async def with_arrivals(*arrivals: Manifest, nodes: int = 1) -> Rig:
    """Run a scheduler on six gangs; some nodes, then latency-bound pods, arrive once the first cycle has opened."""
    rig = Rig(clock=SteppingClock(), budget=1000.0, state=ClusterState(AGENTS))

    def arrive(batch: Batch) -> None:
        if any(isinstance(event, CycleOpened) for event in batch) and len(rig.opened) == 1:
            rig.put(*(node(f"late-{number}") for number in range(nodes)), *arrivals)

    rig.bus.subscribe(arrive)
    gangs = [item for number in range(6) for item in gang(f"g{number}", 1)]
    async with rig.running(*CLUSTER, node("large", cpu="64"), *gangs):
        for _ in gangs:
            await run_until_idle()
    replays = list(replay(rig.events, ClusterState(AGENTS), lambda _: profile()))
    assert [cycle.cycle for cycle in replays if not cycle.is_same] == []
    assert len(rig.batches) == 6 + len(arrivals)
    return rig


def bound_in(rig: Rig, cycle: int) -> list[str]:
    return [bind.name for decided in rig.of(Decided) for bind in binds_of(decided) if decided.cycle == cycle]


async def test_a_latency_bound_pod_joins_the_open_cycle_before_older_events() -> None:
    rig = await with_arrivals(pod("agent", cpu="1", spec={"schedulerName": "agent-scheduler"}))
    assert bound_in(rig, 1)[0] == "agent"
    assert (rig.closed[0].where, rig.opened[0].upto < rig.of(ArrivalsFolded)[0].arrivals[0]) == ("", True)


async def test_one_with_terms_about_other_pods_cuts_the_open_cycle_and_goes_first_in_the_next() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    rig = await with_arrivals(pod("agent", cpu="1", spec={"schedulerName": "agent-scheduler", "affinity": affinity}))
    assert (rig.closed[0].where != "", bound_in(rig, 2)[0]) == (True, "agent")


async def test_a_cycle_ends_soon_when_many_events_wait_and_latency_bound_pods_may_arrive() -> None:
    rig = await with_arrivals(pod("agent", cpu="1", spec={"schedulerName": "agent-scheduler"}), nodes=200)
    assert (rig.closed[0].where != "", bound_in(rig, 1)[0]) == (True, "agent")


async def test_many_that_arrive_together_are_bound_at_several_boundaries() -> None:
    rig = await with_arrivals(*(pod(f"a{at}", cpu="1", spec={"schedulerName": "agent-scheduler"}) for at in range(40)))
    assert [len(event.arrivals) for event in rig.of(ArrivalsFolded)] == [32, 8]


def binds_of(decided: Decided) -> list[BindRequest]:
    return [bind for each in decided.decisions if isinstance(each, BindBatch) for bind in each.binds]


class Broken:
    """A plugin that raises whenever a job called `bad` exists."""

    name = "broken"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        pass

    def open(self, session: SessionView) -> None:
        if "ns/bad" in session.jobs:
            raise RuntimeError("no")


WITH_BROKEN = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: broken}]}]"


async def test_a_plugin_that_raises_ends_the_cycle_and_not_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(more_plugins={"broken": Broken}, configuration=WITH_BROKEN)
    async with rig.running(*CLUSTER):
        rig.put(*gang("bad", 1))
        await rig.clock.advance(0.1)
        assert rig.closed[-1].fault == "RuntimeError: no"
        faults = sum(bool(event.fault) for event in rig.closed)
        rig.put(*gang("good", 1))
        await run_until_idle()
        assert sum(bool(event.fault) for event in rig.closed) == faults, "it waits for the period"
        rig.scheduler.configure("actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}]}]")
        await rig.clock.advance(2.0)
        assert sorted(batch.group for batch in rig.batches) == ["ns/bad", "ns/good"]


async def test_a_configuration_whose_plugin_raises_is_rolled_back() -> None:
    good = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}]}]"
    probe = Series()
    rig = Rig(more_plugins={"broken": Broken}, configuration=good, probe=probe)
    async with rig.running(*CLUSTER):
        rig.put(*gang("bad", 1))
        await rig.clock.advance(1.0)
        assert [batch.group for batch in rig.batches] == ["ns/bad"]
        rig.scheduler.configure(WITH_BROKEN)
        await rig.clock.advance(3.0)
        assert [event.text for event in rig.configurations] == [good, WITH_BROKEN, good]
        assert ("volcano_scheduler_config_valid", "") in probe.series
        rig.put(*gang("good", 1))
        await rig.clock.advance(1.0)
        assert [batch.group for batch in rig.batches] == ["ns/bad", "ns/good"]
        assert sum(bool(event.fault) for event in rig.closed) == 1


async def test_a_configuration_takes_effect_between_cycles_unless_invalid() -> None:
    rig = Rig()
    async with rig.running(*CLUSTER):
        with pytest.raises(ConfigurationError, match="did you mean"):
            rig.scheduler.configure("actions: alocate")
        with pytest.raises(ConfigurationError, match=r'line 2, column 48: binpack: .* did you mean "binpack.weight"'):
            rig.scheduler.configure(
                "actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.wight: 1}}]}]"
            )
        await rig.clock.advance(1.0)
        assert len(rig.configurations) == 1
        rig.scheduler.configure("actions: enqueue\ntiers: []")
        await rig.clock.advance(1.0)
        assert [event.text for event in rig.configurations][1:] == ["actions: enqueue\ntiers: []"]
        following = next(event for event in rig.events if event.seq == rig.configurations[-1].seq + 1)
        assert isinstance(following, CycleOpened)
        rig.put(*gang("a", 1))
        await rig.clock.advance(1.0)
        assert not rig.batches


class Reader:
    """Reads quotas."""

    name = "reader"
    watches = (kinds.RESOURCE_QUOTA.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        pass


WITH_READER = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: reader}]}]"
WITHOUT = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}]}]"


async def test_only_resources_that_plugins_read_are_watched() -> None:
    rig = Rig(more_plugins={"reader": Reader}, configuration=WITHOUT)
    quotas = kinds.RESOURCE_QUOTA.resource
    async with rig.running(*CLUSTER, synced=False):
        rig.sync(REQUIRED_RESOURCES)
        await rig.clock.advance(1.0)
        assert quotas not in rig.informers.asked
        rig.scheduler.configure(WITH_READER)
        assert rig.informers.asked.count(quotas) == 1
        rig.put(*gang("a", 2))
        await rig.clock.advance(2.0)
        assert len(rig.configurations) == 1, "the old one stays until what the new one reads is listed"
        assert len(rig.batches) == 1
        rig.sync([quotas])
        await run_until_idle()
        assert [event.text for event in rig.configurations] == [WITHOUT, WITH_READER]
        rig.relist(quotas)
        cycles = len(rig.opened)
        await rig.clock.advance(2.0)
        assert len(rig.opened) == cycles
        rig.sync([quotas])
        rig.scheduler.configure(WITHOUT)
        await rig.clock.advance(2.0)
        assert quotas not in rig.informers.asked


async def test_a_plugin_that_watches_a_forbidden_resource_is_refused() -> None:
    class Nosy(Reader):
        name = "nosy"
        watches = ("secrets",)

    rig = Rig(more_plugins={"nosy": Nosy})
    with pytest.raises(ConfigurationError, match='plugin "nosy" watches "secrets"'):
        rig.scheduler.configure("actions: allocate\ntiers: [{plugins: [{name: nosy}]}]")


async def test_no_decision_before_resources_of_plugins_are_listed() -> None:
    rig = Rig(more_plugins={"reader": Reader}, configuration=WITH_READER)
    async with rig.running(*CLUSTER, *gang("a", 2), synced=False):
        rig.sync(REQUIRED_RESOURCES)
        await rig.clock.advance(2.0)
        assert not rig.opened
        rig.sync([kinds.RESOURCE_QUOTA.resource])
        await run_until_idle()
        assert len(rig.batches) == 1


async def test_it_makes_the_two_queues_that_must_exist() -> None:
    rig = Rig()
    async with rig.running():
        await run_until_idle()
    bodies = [call.body for call in rig.transport.calls if call.method == "POST"]
    assert [(body["metadata"]["name"], body["spec"]) for body in bodies] == [
        ("root", {"weight": 1, "reclaimable": False}),
        ("default", {"weight": 1, "reclaimable": True}),
    ]


async def test_a_standby_makes_the_queues_once_it_leads_and_logs_no_warning_before() -> None:
    clock, leading = VirtualClock(), False

    async def answer(call: Call) -> Response:
        if call.method == "GET":
            return refusal(404, "NotFound")
        if not leading:
            raise NotSent(call.method, call.path)
        return Response(201, b"{}")

    transport = ScriptedTransport(answer)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ensure_queues, Client(transport), "default", clock)
            await clock.advance(30.0)
            leading = True
            await clock.advance(1.0)
    made = [call.body["metadata"]["name"] for call in transport.calls if call.method == "POST"]
    assert (made[-2:], logs) == (["root", "default"], [])


async def test_queues_that_exist_are_not_created_again_where_admission_is_away() -> None:
    """A webhook that cannot be reached fails every create, also that of an object that exists."""

    async def respond(call: Call) -> Response:
        if call.method == "GET":
            name = call.path.rpartition("/")[2]
            return answer({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}})
        return refusal(500, "InternalError")

    transport = ScriptedTransport(respond)
    await ensure_queues(Client(transport), "default", VirtualClock())
    assert [call.method for call in transport.calls] == ["GET", "GET"]


class Series:
    """A probe that keeps the series there are."""

    def __init__(self) -> None:
        self.series: set[tuple[str, str]] = set()

    def _add(self, name: str, labels: Mapping[str, str]) -> None:
        self.series.add((name, ",".join(labels.values())))

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self._add(name, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._add(name, labels)

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        self._add(name, labels)

    def forget(self, name: str, **labels: str) -> None:
        self.series.discard((name, ",".join(labels.values())))


async def test_figures_bear_volcanos_names_and_a_jobs_go_with_it() -> None:
    probe = Series()
    rig = Rig(probe=probe)
    async with rig.running(*CLUSTER, *gang("a", 2)):
        await rig.clock.advance(1.5)
        watched = ("volcano_task_scheduling_latency_milliseconds", "Watched")
        assert watched not in probe.series, "pods that were listed at the start are as old as they are"
        rig.put(*gang("b", 1))
        await rig.clock.advance(1.5)
        assert {
            ("volcano_e2e_scheduling_latency_milliseconds", ""),
            ("volcano_action_scheduling_latency_milliseconds", "allocate"),
            ("volcano_e2e_job_scheduling_latency_milliseconds", ""),
            ("volcano_e2e_job_scheduling_duration", "a,default,ns"),
            ("volcano_plugin_scheduling_latency_milliseconds", "drf,OnSessionOpen"),
            ("volcano_plugin_scheduling_latency_milliseconds", "gang,OnSessionClose"),
            ("volcanoio_close_session_duration_milliseconds", ""),
            watched,
            ("volcano_task_scheduling_latency_milliseconds", "Assumed"),
            ("volcano_task_scheduling_latency_milliseconds", "Bound"),
            ("volcano_job_share", "ns,a"),
            ("volcano_queue_allocated_milli_cpu", "default"),
            ("volcano_unschedule_job_count", ""),
        } <= probe.series
        rig.bus.publish([rig.gone(kinds.POD_GROUP, "ns/a")])
        await run_until_idle()
        assert not [name for name, labels in probe.series if labels.startswith("a,")]


async def test_a_job_that_stays_short_is_counted_once_a_period_and_forgotten_with_its_group() -> None:
    retries: list[str] = []

    class Retries(Series):
        def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
            super().count(name, amount, **labels)
            if name == "volcano_job_retry_counts":
                retries.append(labels["job_id"])

    probe = Retries()
    rig = Rig(probe=probe)
    async with rig.running(*CLUSTER, *gang("big", 2, cpu="9")):
        await rig.clock.advance(3.5)
        assert retries
        assert len(retries) <= 4
        rig.bus.publish([rig.gone(kinds.POD_GROUP, "ns/big")])
        await rig.clock.advance(2.0)
        assert not {("volcano_job_retry_counts", "big"), ("volcano_job_share", "ns,big")} & probe.series


def replayed(events: list[Event]) -> list[ReplayedCycle]:
    """Replay the events as read from a journal."""
    codec = Codec()
    journal = []
    for event in events:
        record = codec.decode(codec.encode(EventRecord(event=event)))
        assert isinstance(record, EventRecord)
        journal.append(record.event)
    return list(replay(journal, ClusterState(), lambda event: profile(event.text)))


def assert_same(events: list[Event]) -> None:
    """Assert that the replay has equal decisions."""
    cycles = replayed(events)
    assert sum(len(cycle.decided) for cycle in cycles) > 0
    assert [cycle.cycle for cycle in cycles if not cycle.is_same] == []


async def recorded() -> list[Event]:
    """Record some cycles of gangs that fit, wait, are refused once and then run."""
    rig = Rig(seed=42)
    async with rig.running(*CLUSTER):
        rig.refuse = lambda batch: batch.group == "ns/b" and len(rig.batches) == 2
        for name in ("a", "b", "c", "d"):
            rig.put(*gang(name, 3))
            await rig.clock.advance(0.4)
        await rig.clock.advance(2.5)
    return rig.events


async def test_a_journal_replays_to_the_same_decisions() -> None:
    assert_same(await recorded())


async def test_one_changed_event_changes_the_decisions() -> None:
    events = await recorded()
    position = next(i for i, e in enumerate(events) if isinstance(e, Observed) and isinstance(e.object, Node))
    smaller = node("n1", cpu="1")
    changed = events[position]
    assert isinstance(changed, Observed)
    events[position] = msgspec.structs.replace(changed, object=msgspec.convert(smaller, Node))
    assert [cycle for cycle in replayed(events) if not cycle.is_same]


async def test_a_replay_starts_at_the_first_configuration() -> None:
    events = [event for event in await recorded() if not isinstance(event, ConfigurationChanged)]
    with pytest.raises(ValueError, match="before any ConfigurationChanged"):
        replayed(events)
