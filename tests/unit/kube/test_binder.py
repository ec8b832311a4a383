"""Binds of a gang under every fault: done, refused or unknown, and an unknown one is always decided."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.kube.scripted import Call, ManualClock, ScriptedTransport, answer, refusal, until
from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, Evict
from volcanoio.framework.scheduling_events import BindDone, BindRefused, BindUnknown, EvictDone, EvictRefused
from volcanoio.kube.binder import Binder, BinderOptions
from volcanoio.kube.evictor import Evictor
from volcanoio.kube.sender import InFlightWindow, Sender
from volcanoio.kube.transport import Response, TransportError

Fault = Callable[["Server", str, str], Response | TransportError | None]


class Server:
    """Binds pods as an API server does; `faults` are popped, one for each POST of that pod."""

    def __init__(self, pods: int = 8) -> None:
        self.uids = {f"p{number}": f"uid-{number}" for number in range(pods)}
        self.nodes: dict[str, str] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.reads: list[Response | TransportError] = []
        self.bound: list[str] = []
        self.in_flight = self.most_in_flight = 0
        self.clock = ManualClock()
        self.transport = ScriptedTransport(self.serve)

    async def serve(self, call: Call) -> Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        name = call.path.split("/")[6]
        if call.method == "GET":
            result = self.reads.pop(0) if self.reads else self.read(name)
        else:
            faults = self.faults.get(name)
            answered = faults.pop(0)(self, name, call.body["target"]["name"]) if faults else None
            result = answered or self.bind(name, call.body["metadata"]["uid"], call.body["target"]["name"])
        if isinstance(result, TransportError):
            raise result
        return result

    def bind(self, name: str, uid: str, node: str) -> Response:
        if name not in self.uids:
            return refusal(404, "NotFound")
        if self.uids[name] != uid or name in self.nodes:
            return refusal(409, "Conflict", "is already assigned")
        self.nodes[name] = node
        self.bound.append(name)
        return answer({"kind": "Status", "status": "Success"}, 201)

    def read(self, name: str) -> Response:
        if name not in self.uids:
            return refusal(404, "NotFound")
        return answer({"metadata": {"uid": self.uids[name]}, "spec": {"nodeName": self.nodes.get(name, "")}})


def busy(server: Server, name: str, node: str) -> Response:
    return refusal(429, "TooManyRequests", headers={"Retry-After": "2"})


def refused(server: Server, name: str, node: str) -> Response:
    return refusal(403, "Forbidden", "no")


def failed_after_commit(server: Server, name: str, node: str) -> Response:
    server.bind(name, server.uids[name], node)
    return refusal(500, "InternalError", "after commit")


def failed_before_commit(server: Server, name: str, node: str) -> Response:
    return refusal(500, "InternalError", "before commit")


def reset_after_commit(server: Server, name: str, node: str) -> TransportError:
    server.bind(name, server.uids[name], node)
    return TransportError("reset")


def hang(server: Server, name: str, node: str) -> TransportError:
    return TransportError("no answer in time")


def bound_elsewhere(server: Server, name: str, node: str) -> TransportError:
    server.bind(name, server.uids[name], "somebody-elses")
    return TransportError("reset")


def replaced(server: Server, name: str, node: str) -> TransportError:
    server.uids[name] = "another"
    return TransportError("reset")


def gang(pods: int = 8, group: str = "ns/g") -> BindBatch:
    binds = (
        BindRequest(uid=f"uid-{number}", namespace="ns", name=f"p{number}", node=f"n{number}") for number in range(pods)
    )
    return BindBatch(group=group, cycle=1, binds=tuple(binds))


class Bench:
    def __init__(self, server: Server, *, window: InFlightWindow | None = None) -> None:
        self.server = server
        self.window = window or InFlightWindow()
        self.allowed = True
        self.events: list[Event] = []
        self.publishes: list[Batch] = []
        self.bus = EventBus(server.clock.now)
        self.bus.subscribe(self.publishes.append)
        self.bus.subscribe(self.events.extend)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Binder]:
        binder = Binder(
            self.server.transport,
            self.bus.publish,
            clock=self.server.clock,
            fence=lambda: self.allowed,
            options=BinderOptions(window=self.window),
        )
        async with binder:
            yield binder

    async def bind(self, batch: BindBatch) -> None:
        async with self.running() as binder:
            binder.submit(batch, cause=5)
            await until(lambda: not binder.unfinished)
            assert self.window.in_flight == 0

    def final(self) -> dict[str, str]:
        """The last word on each pod; there must be exactly one."""
        words: dict[str, str] = {}
        for event in self.events:
            if isinstance(event, BindDone | BindRefused):
                assert event.name not in words
                words[event.name] = "done" if isinstance(event, BindDone) else f"refused {event.code}"
        return words


async def test_a_gang_is_sent_together_and_published_together() -> None:
    bench = Bench(Server())
    await bench.bind(gang())
    assert bench.final() == dict.fromkeys(bench.server.uids, "done")
    assert len(bench.publishes) == 1
    assert bench.server.most_in_flight == 8
    call = bench.server.transport.calls[3]
    assert (call.method, call.path, call.timeout) == ("POST", "/api/v1/namespaces/ns/pods/p3/binding", 5.0)
    assert call.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p3", "namespace": "ns", "uid": "uid-3"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n3"},
    }
    assert all(event.cause == 5 for event in bench.events)


async def test_annotations_travel_with_the_bind() -> None:
    bench = Bench(Server())
    request = BindRequest(uid="uid-0", namespace="ns", name="p0", node="n", annotations={"gpu": '"0"'})
    await bench.bind(BindBatch(group="ns/g", cycle=1, binds=(request,)))
    assert bench.server.transport.calls[0].body["metadata"]["annotations"] == {"gpu": '"0"'}


async def test_every_fault_on_the_third_of_eight_is_decided() -> None:
    for fault, word, unknown in (
        (busy, "done", False),
        (refused, "refused 403", False),
        (failed_after_commit, "done", True),
        (failed_before_commit, "done", True),
        (reset_after_commit, "done", True),
        (hang, "done", True),
        (bound_elsewhere, "refused 409", True),
        (replaced, "refused 404", True),
    ):
        bench = Bench(Server())
        bench.server.faults["p2"] = [fault]
        await bench.bind(gang())
        assert bench.final() == {**dict.fromkeys(bench.server.uids, "done"), "p2": word}, fault
        assert any(isinstance(event, BindUnknown) for event in bench.events) is unknown, fault
        assert len(set(bench.server.bound)) == len(bench.server.bound)


async def test_a_conflict_is_done_if_the_pod_is_on_our_node() -> None:
    bench = Bench(Server())
    bench.server.nodes = {"p0": "n0", "p1": "other"}
    await bench.bind(gang(2))
    assert bench.final() == {"p0": "done", "p1": "refused 409"}


async def test_the_look_at_the_pod_is_repeated_until_it_is_answered() -> None:
    bench = Bench(Server())
    bench.server.faults["p0"] = [reset_after_commit]
    bench.server.reads = [TransportError("down"), refusal(500, "InternalError"), refusal(429, "TooManyRequests")]
    await bench.bind(gang(1))
    assert bench.final() == {"p0": "done"}


async def test_the_number_in_flight_adapts_and_retry_after_is_kept() -> None:
    bench = Bench(Server(40), window=InFlightWindow(start=16))
    bench.server.faults["p0"] = [busy]
    await bench.bind(gang(40))
    assert bench.server.most_in_flight == 16
    assert 8 <= bench.window.size < 16
    assert max(bench.server.clock.slept) >= 2
    assert len(bench.server.bound) == 40


async def test_without_leadership_nothing_is_sent() -> None:
    bench = Bench(Server())
    bench.allowed = False
    await bench.bind(gang(2))
    assert bench.final() == {"p0": "refused 0", "p1": "refused 0"}
    assert bench.server.transport.calls == []


async def test_at_the_end_begun_batches_are_completed_and_all_others_refused() -> None:
    bench = Bench(Server(12), window=InFlightWindow(start=2, most=2))
    begun, unsent, late = (
        BindBatch(group=f"ns/{group}", cycle=1, binds=gang(12).binds[first : first + 4])
        for group, first in (("begun", 0), ("unsent", 4), ("late", 8))
    )
    async with bench.running() as binder:
        binder.submit(begun)
        binder.submit(unsent)
        ending = asyncio.create_task(binder.drain())
        await asyncio.sleep(0)
        binder.submit(late)
        await ending
    assert bench.server.bound == ["p0", "p1", "p2", "p3"]
    assert bench.final() == {f"p{number}": "done" if number < 4 else "refused 0" for number in range(12)}
    refused = [event for event in bench.events if isinstance(event, BindRefused)]
    assert {(event.reason, event.message) for event in refused} == {("Ending", "this process ends")}


FAULTS = st.sampled_from([busy, refused, failed_after_commit, failed_before_commit, reset_after_commit, hang])


@examples(60)
@given(st.dictionaries(st.sampled_from([f"p{number}" for number in range(8)]), st.lists(FAULTS, max_size=4)))
def test_under_any_fault_every_bind_has_one_outcome_that_matches_the_server(faults: dict[str, list[Fault]]) -> None:
    async def scenario() -> None:
        bench = Bench(Server(), window=InFlightWindow(start=3, least=1, most=4))
        bench.server.faults = faults
        await bench.bind(gang())
        assert set(bench.final()) == set(bench.server.uids)
        assert {name for name, word in bench.final().items() if word == "done"} == set(bench.server.nodes)
        assert len(set(bench.server.bound)) == len(bench.server.bound)

    asyncio.run(scenario())


def test_the_window_opens_slowly_and_closes_fast() -> None:
    window = InFlightWindow(start=8, least=2, most=10)
    for _ in range(100):
        window.succeeded()
    assert window.size == 10
    window.overloaded(sent_at=1.0, now=2.0, retry_after=3.0)
    window.overloaded(sent_at=1.5, now=2.5, retry_after=0.0)  # was under way with the first
    assert (window.size, window.pause_left(4.0)) == (5, 1.0)
    assert not window.has_room(4.0)
    assert window.has_room(5.0)
    for now in range(10, 20):
        window.overloaded(sent_at=now, now=now + 0.5, retry_after=0.0)
    assert window.size == 2
    small = InFlightWindow(start=1, least=4, most=1)
    small.overloaded(sent_at=1.0, now=1.0, retry_after=0.0)
    assert small.size == 1


async def test_an_eviction_marks_the_pod_and_deletes_that_uid() -> None:
    effect = Evict(group="ns/g", uid="uid-0", namespace="ns", name="p0", node="n0", reason="preempt")
    clock = ManualClock()
    for answers, outcome in (
        ([answer({}), answer({})], EvictDone),
        ([refusal(404, "NotFound")], EvictDone),
        ([refusal(422, "Invalid"), refusal(409, "Conflict"), answer({"metadata": {"uid": "uid-1"}})], EvictDone),
        ([answer({}), refusal(409, "Conflict"), refusal(404, "NotFound")], EvictDone),
        ([answer({}), refusal(409, "Conflict"), answer({"metadata": {"uid": "uid-0"}})], EvictRefused),
        ([answer({}), refusal(500, "InternalError"), refusal(404, "NotFound")], EvictDone),
        ([refusal(403, "Forbidden")], EvictRefused),
    ):
        left = list(answers)

        async def script(call: Call, left: list[Response] = left) -> Response:
            return left.pop(0)

        transport, events = ScriptedTransport(script), list[Event]()
        evictor = Evictor(Sender(transport, clock=clock), events.extend, clock=clock, scheduler="volcano")
        await evictor.evict(effect)
        assert [type(event) for event in events] == [outcome]
        assert not left
        first = transport.calls[0]
        assert first.path.endswith("/pods/p0/status")
        assert [condition["type"] for condition in first.body["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
        assert first.body["metadata"] == {"uid": "uid-0"}
        if len(transport.calls) > 1:
            assert transport.calls[1].body["preconditions"] == {"uid": "uid-0"}


async def test_a_bind_to_a_node_that_left_the_zone_is_not_sent_again() -> None:
    """The first attempt has no response; before the second one the node moves to another scheduler's zone."""
    server, left = Server(), set[str]()
    server.faults["p1"] = [hang]

    def move(server: Server, name: str, node: str) -> Response | TransportError | None:
        left.add(node)
        return refusal(500, "InternalError", "before commit")

    server.faults["p2"] = [move]
    left.add("n3")
    events: list[Event] = []
    options = BinderOptions(may_use=lambda node: node not in left)
    async with Binder(server.transport, events.extend, clock=server.clock, options=options) as binder:
        binder.submit(gang(4))
        await until(lambda: not binder.unfinished)
    assert sorted(server.bound) == ["p0", "p1"]
    refusals = {event.name: (event.code, event.reason) for event in events if isinstance(event, BindRefused)}
    assert refusals == {"p2": (0, "NodeLeftZone"), "p3": (0, "NodeLeftZone")}
