"""One of several processes leads; the others take over when it stops, and it writes nothing more by then."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.kube.elections import LEASE, WRITTEN, Network, World, a_world
from volcanoio.kube.clock import WallClock
from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.leader_election import LeaderElector, LeaseSettings, LeaseSettingsError, Stage
from volcanoio.kube.transport import NotSent
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.runtime.metrics import PrometheusProbe


async def test_the_first_process_leads_and_writes_the_lease() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(100)
        lease = await world.lease()
        assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("first", 15, 0)
        assert lease["acquireTime"].endswith("Z")
        assert lease["renewTime"] > lease["acquireTime"]
        assert first.leads
        assert second.candidate.stage is Stage.STANDBY
        assert second.candidate.holder == "first"


async def test_a_killed_leader_is_replaced_when_its_lease_has_ended() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(31.7)
        await first.kill()
        took = await world.until(lambda: second.leads)
        assert 13 <= took <= 15 + 1.1
        lease = await world.lease()
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)


async def test_a_stopped_leader_finds_its_fence_closed_when_it_resumes() -> None:
    async with a_world() as world:
        first = world.process("first", pace=0.5)
        await world.until(lambda: first.leads)
        second = world.process("second", pace=0.5)
        await world.clock.advance(20)
        first.stop()
        await world.clock.advance(30)
        assert second.leads
        assert not first.leads
        before = first.transport.carried_out.count(("PATCH", WRITTEN))
        first.resume()
        await world.clock.advance(30)
        assert first.candidate.lost_because
        assert first.transport.carried_out.count(("PATCH", WRITTEN)) == before


async def test_a_leader_stopped_for_less_than_the_renew_deadline_goes_on() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        await world.clock.advance(20)
        first.stop()
        await world.clock.advance(7)
        assert not first.leads
        first.resume()
        await world.clock.advance(1)
        assert first.leads


@pytest.mark.parametrize("skew", [300.0, -300.0])
async def test_clocks_may_differ_by_minutes(skew: float) -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second", skew=skew)
        await world.clock.advance(100)
        assert first.leads
        assert second.candidate.stage is Stage.STANDBY
        await first.kill()
        assert 12 <= await world.until(lambda: second.leads) <= 15 + 1.1


async def test_a_blocked_event_loop_loses_the_lease() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(10)
        first.is_alive = False
        await world.until(lambda: second.leads)
        assert "not renewed for 10 s" in first.candidate.lost_because
        first.is_alive = True
        await world.clock.advance(20)
        assert not first.leads


async def test_a_stolen_lease_is_lost_at_once() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        await world.clock.advance(10)
        await world.edit(spec={"holderIdentity": "thief"})
        assert await world.until(lambda: bool(first.candidate.lost_because)) <= 2.1
        assert first.candidate.lost_because == "thief holds it"


async def test_a_deleted_lease_is_not_led_by_two() -> None:
    async with a_world() as world:
        first = world.process("first", pace=0.5)
        await world.until(lambda: first.leads)
        second = world.process("second", pace=0.5)
        await world.clock.advance(10.1)
        first.transport.network.is_down = True
        await world.delete()
        await world.until(lambda: second.candidate.stage is Stage.LEADER)
        assert first.leads
        assert not second.leads
        await world.until(lambda: second.leads)
        assert first.candidate.lost_because


async def test_a_deleted_lease_is_made_again_by_its_holder() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        await world.delete()
        await world.clock.advance(2.1)
        assert first.leads
        assert (await world.lease())["holderIdentity"] == "first"


async def test_an_emptied_lease_is_not_led_by_two() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(10.1)
        first.transport.network.is_down = True
        await world.edit(spec={"holderIdentity": None})
        await world.until(lambda: second.candidate.stage is Stage.LEADER)
        assert not second.leads
        assert await world.until(lambda: second.leads) >= 14
        assert not first.leads


def _down(network: Network) -> None:
    network.is_down = True


def _failing(network: Network) -> None:
    network.status = 500


def _late(network: Network) -> None:
    network.delay = 6.0


def _mute(network: Network) -> None:
    network.loses_answers = True


@pytest.mark.parametrize("fault", [_down, _failing, _late])
async def test_failing_renewals_close_the_fence_and_then_lose_the_lease(fault: Callable[[Network], None]) -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(10)
        fault(first.transport.network)
        closed = await world.until(lambda: not first.leads)
        assert 3 <= closed <= 5.1
        assert await world.until(lambda: bool(first.candidate.lost_because)) == pytest.approx(5, abs=0.11)
        assert not second.leads
        await world.until(lambda: second.leads)


async def test_lost_answers_close_the_fence_before_another_leads() -> None:
    async with a_world() as world:
        first = world.process("first", pace=0.5)
        await world.until(lambda: first.leads)
        second = world.process("second", pace=0.5)
        await world.clock.advance(10)
        _mute(first.transport.network)
        await world.until(lambda: second.leads)
        assert first.candidate.lost_because


async def test_a_short_failure_of_the_server_keeps_the_lease() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        await world.clock.advance(10)
        first.transport.network.status = 503
        await world.clock.advance(8)
        assert not first.leads
        first.transport.network.status = 0
        await world.clock.advance(1)
        assert first.leads
        assert not first.candidate.lost_because


async def test_answers_that_take_three_seconds_keep_the_fence_open() -> None:
    async with a_world() as world:
        first = world.process("first")
        first.transport.network.delay = first.transport.network.back = 1.2
        await world.until(lambda: first.leads)
        for _ in range(100):
            await world.clock.advance(0.25)
            assert first.leads


async def test_a_released_lease_is_taken_at_once() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(10)
        await first.end()
        lease = await world.lease()
        assert lease.get("holderIdentity") is None
        assert lease["leaseDurationSeconds"] == 1
        assert not first.leads
        assert await world.until(lambda: second.leads) <= 1.1


async def test_a_release_waits_for_writes_whose_outcome_is_unknown() -> None:
    async with a_world() as world:
        first = world.process("first", pace=0.5)
        await world.until(lambda: first.leads)
        await world.clock.advance(10)
        first.transport.network.back = 100.0
        await world.clock.advance(1)
        first.transport.network.back = 0.0
        ending = asyncio.create_task(first.end())
        took = await world.until(ending.done)
        assert 4 <= took <= 10


async def test_a_standby_ends_without_touching_the_lease() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(5)
        await second.end()
        assert (await world.lease())["holderIdentity"] == "first"


async def test_a_standby_writes_nothing() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        second = world.process("second")
        await world.clock.advance(5)
        with pytest.raises(NotSent, match="may not write now"):
            await second.writes.request("DELETE", WRITTEN)
        assert (await second.writes.request("GET", WRITTEN)).ok


async def test_foreign_fields_of_the_lease_are_kept() -> None:
    async with a_world() as world:
        first = world.process("first")
        await world.until(lambda: first.leads)
        await world.edit(metadata={"labels": {"team": "batch"}})
        await world.clock.advance(5)
        assert first.leads
        assert (await world.lease_metadata())["labels"] == {"team": "batch"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "leader-elect-resource-name must not be empty"),
        ({"name": "a", "namespace": ""}, "leader-elect-resource-namespace must not be empty"),
        ({"name": "a", "retry_period": 0.0}, "leader-elect-retry-period must be greater than 0, not 0s"),
        ({"name": "a", "renew_deadline": 7.0}, "leader-elect-renew-deadline must be at least 7.4s, not 7s"),
        ({"name": "a", "duration": 10.9}, "leader-elect-lease-duration must be greater than leader-elect-renew"),
    ],
)
def test_settings_with_which_no_process_could_lead_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(LeaseSettingsError, match=message):
        LeaseSettings(**settings)  # type: ignore[arg-type]


Step = tuple[str, int, float]
_FAULTS = ("stop", "block", "down", "failing", "late", "mute", "slow")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from((*_FAULTS, *_FAULTS, "delete", "empty", "release", "kill")),
        st.integers(0, 1),
        st.sampled_from((0.3, 2.0, 4.9, 5.1, 7.0, 9.9, 10.1, 14.9, 15.1, 30.0)),
    ),
    max_size=6,
)  # fmt: skip
_NETWORKS = {
    "down": Network(is_down=True),
    "failing": Network(status=500),
    "late": Network(delay=4.9),
    "mute": Network(loses_answers=True),
    "slow": Network(delay=1.5, back=3.0),
}


async def take_step(world: World, step: Step, number: int) -> None:
    """Let a fault begin, and end after a while; `check` holds at every moment."""
    fault, index, seconds = step
    process = world.processes[-1 - index]
    if fault == "stop":
        process.stop()
    elif fault == "block":
        process.is_alive = False
    elif fault == "delete":
        await world.delete()
    elif fault == "empty":
        await world.edit(spec={"holderIdentity": None})
    elif fault in ("release", "kill"):
        if fault == "release":
            process.candidate.shut()
            await world.clock.advance(0.3)
            await world.until_done(process.end())
        await process.kill()
        await world.until_leased()  # a process that never saw the Lease of a holder cannot wait for its end
        world.process(f"later{number}", skew=100.0 * number, pace=0.5)
    else:
        process.transport.network = replace(_NETWORKS[fault])
    for _ in range(math.ceil(seconds / 0.25)):
        await world.clock.advance(0.25)
        world.check()
    process.resume()
    world.check()
    process.is_alive, process.transport.network = True, Network()


@given(_STEPS)
@examples(10)
def test_at_no_time_two_processes_may_write(steps: list[Step]) -> None:
    async def play() -> None:
        async with a_world() as world:
            world.process("first", pace=0.5)
            world.process("second", skew=-300.0, pace=0.5)
            await world.clock.advance(3)  # each has observed the Lease
            for number, step in enumerate(steps):
                await take_step(world, step, number)
            await world.until_leased()
            world.process("fresh", pace=0.5)
            for _ in range(100):
                await world.clock.advance(0.5)
                world.check()
            assert any(process.leads for process in world.processes)

    asyncio.run(play())


def quick(identity: str) -> LeaseSettings:
    """Settings with which a change of the Lease is observed at once."""
    return LeaseSettings(name="volcano", identity=identity, retry_period=0.01)


@asynccontextmanager
async def a_served_server() -> AsyncIterator[Connection]:
    api = ApiServer.open(None)
    async with api.running(), serve(api) as bound:
        yield Connection(bound.url, credentials=StaticCredentials(f"Bearer {bound.token}"))


async def test_an_elector_leads_on_its_own_thread_and_releases() -> None:
    async with a_served_server() as connection, asyncio.TaskGroup() as tasks, asyncio.timeout(20):
        probe = PrometheusProbe(process=False)
        first, second = LeaderElector(connection, quick("a"), probe=probe), LeaderElector(connection, quick("b"))
        running = tasks.create_task(first.run())
        await first.acquired()
        assert 'volcanoio_lease_failures_total{lease="volcano"} 0.0' in probe.page().decode()
        assert first.is_leading()
        standby = tasks.create_task(second.run())
        guarded = first.guard(HttpTransport(connection))
        created = await guarded.request("POST", "/api/v1/namespaces", body=b'{"metadata":{"name":"mine"}}')
        assert created.status == 201
        await first.release()
        await running
        assert not first.is_leading()
        with pytest.raises(NotSent):
            await guarded.request("DELETE", "/api/v1/namespaces/mine")
        await second.acquired()
        assert second.holder == "b"
        standby.cancel()
        await asyncio.wait([standby])
        assert not second.is_leading()
        await guarded.aclose()


async def test_an_elector_ends_when_its_lease_is_stolen() -> None:
    async with a_served_server() as connection, asyncio.timeout(20):
        elector = LeaderElector(connection, quick("a"))
        running = asyncio.create_task(elector.run())
        await elector.acquired()
        transport = HttpTransport(connection)
        stolen = b'{"spec":{"holderIdentity":"thief"}}'
        await transport.request("PATCH", LEASE, body=stolen, content_type="application/merge-patch+json")
        await elector.lost()
        await running
        assert elector.lost_because == "thief holds it"
        assert not elector.is_leading()
        await transport.aclose()


class SteppedClock(WallClock):
    """A clock that a test advances while the thread of an elector waits on it."""

    def __init__(self) -> None:
        self._time = 1000.0
        self._changed = threading.Condition()
        self._due = math.inf
        self._wake: Callable[[], object] | None = None
        """Wakes the thread of the elector; None while it works."""

    def monotonic(self) -> float:
        return self._time

    async def idle(self, seconds: float) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            self._due = self._time + seconds
            self._wake = partial(loop.call_soon_threadsafe, over.set)
            self._changed.notify_all()
        await over.wait()

    def advance(self, seconds: float, step: float = 0.25) -> None:
        """Advance in steps; after each the elector has done what is due. The calling thread is blocked meanwhile."""
        for _ in range(round(seconds / step)):
            with self._changed:
                assert self._changed.wait_for(lambda: self._wake is not None, 20)
                self._time += step
                if self._time >= self._due:
                    assert self._wake is not None
                    self._wake()
                    self._wake = None


@contextmanager
def a_server_on_its_own_thread() -> Iterator[Connection]:
    """A server that answers while the event loop of the test is blocked."""
    started: Future[tuple[Connection, Callable[[], object]]] = Future()

    async def serve_until_stopped() -> None:
        async with a_served_server() as connection:
            stopped = asyncio.Event()
            started.set_result((connection, partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)))
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve_until_stopped()))
    thread.start()
    connection, stop = started.result(20)
    try:
        yield connection
    finally:
        stop()
        thread.join()


async def test_renewals_go_on_for_half_of_the_deadline_while_the_event_loop_is_blocked_and_then_end() -> None:
    clock = SteppedClock()
    with a_server_on_its_own_thread() as connection:
        elector = LeaderElector(connection, LeaseSettings(name="volcano", identity="a"), clock=clock)
        running = asyncio.create_task(elector.run())
        guarded = elector.guard(HttpTransport(connection))
        await elector.acquired()
        leading = {}
        for second in range(1, 14):  # nothing is awaited: the loop is blocked
            clock.advance(1.0)
            leading[second] = elector.is_leading()
        assert leading == {second: second < 9 for second in leading}, "renewed at 2 s and 4 s, not at 6 s"
        with pytest.raises(NotSent):
            await guarded.request("POST", "/api/v1/namespaces", body=b'{"metadata":{"name":"late"}}')
        clock.advance(1.0)
        await elector.lost()
        await running
        assert elector.lost_because == "it was not renewed for 10 s"
        await guarded.aclose()


async def test_the_fence_is_asked_when_the_bytes_of_a_write_are_sent() -> None:
    async with a_served_server() as connection:
        transport = HttpTransport(connection)
        body = b'{"metadata":{"name":"late"}}'
        try:
            with pytest.raises(NotSent):
                await transport.request("POST", "/api/v1/namespaces", body=body, fence=lambda: False)
            assert (await transport.request("GET", "/api/v1/namespaces/late")).status == 404
            assert (await transport.request("POST", "/api/v1/namespaces", body=body, fence=lambda: True)).ok
        finally:
            await transport.aclose()
