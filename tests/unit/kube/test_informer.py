"""List, watch, resume, relist: what is published and what is asked of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.kube.scripted import Call, ManualClock, Script, ScriptedTransport, Stream, answer, refusal, until
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.events import Event, Observed, Relisting, Synced
from volcanoio.kube.informer import Informer, InformerSet, Selection, WatchContext
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model.custom import custom_kind
from volcanoio.model.kinds import NATIVE_POD_GROUP, NODE, POD, QUEUE, Kind
from volcanoio.runtime.metrics import PrometheusProbe


def pod(name: str, revision: int, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    return {"metadata": meta, "spec": spec}


def line(type_: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj})


def bookmark(revision: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(revision)}, "spec": {"containers": None}})


def listing(*pods: dict[str, Any], revision: int, more: str = "") -> Response:
    return answer({"metadata": {"resourceVersion": str(revision), "continue": more}, "items": list(pods)})


def in_turn(*answers: Response | TransportError) -> Script:
    left = list(answers)

    async def script(call: Call) -> Response:
        result = left.pop(0)
        if isinstance(result, TransportError):
            raise result
        return result

    return script


class Seen:
    """What was published, a short word for each event, one list for each publish."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.bus = EventBus(lambda: 1.0)
        self.bus.subscribe(lambda batch: self.batches.append([self.word(event) for event in batch]))

    @staticmethod
    def word(event: Event) -> str:
        match event:
            case Observed():
                return f"{event.change.value} {event.obj.metadata.name}@{event.obj.metadata.resource_version}"
            case Synced():
                return "synced"
            case Relisting():
                return "relisting"
        raise AssertionError(event)


@asynccontextmanager
async def running(script: Script, streams: list[Stream]) -> AsyncIterator[tuple[ScriptedTransport, Seen, ManualClock]]:
    transport, seen, clock = ScriptedTransport(script, streams), Seen(), ManualClock()
    context = WatchContext(transport=transport, publish=seen.bus.publish, clock=clock)
    informer = Informer(POD, context, Selection(label_selector="app=x"), page=2)
    task = asyncio.ensure_future(informer.run())
    try:
        yield transport, seen, clock
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_paged_list_is_one_publish_and_a_watch_batch_is_one() -> None:
    script = in_turn(listing(pod("a", 3), pod("b", 4), revision=9, more="page2"), listing(pod("c", 5), revision=9))
    streams: list[Stream] = [
        [[line("MODIFIED", pod("a", 10)), line("DELETED", pod("b", 11))], [bookmark(15)]],
        [],
    ]
    async with running(script, streams) as (transport, seen, _):
        await until(lambda: len(transport.watches) == 3)
    assert seen.batches == [
        ["appeared a@3", "appeared b@4", "appeared c@5", "synced"],
        ["changed a@10", "gone b@11"],
    ]
    assert [call.query for call in transport.calls] == [
        {"labelSelector": "app=x", "limit": "2"},
        {"labelSelector": "app=x", "limit": "2", "continue": "page2"},
    ]
    assert [watch["resourceVersion"] for watch in transport.watches] == ["9", "15", "15"]
    assert all(watch["allowWatchBookmarks"] == "true" for watch in transport.watches)
    assert all(300 <= int(watch["timeoutSeconds"]) <= 600 for watch in transport.watches)


async def test_a_version_too_old_relists_and_compares() -> None:
    script = in_turn(listing(pod("a", 3), pod("b", 4), revision=9), listing(pod("a", 20), pod("c", 21), revision=30))
    expired = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
    streams: list[Stream] = [[[line("ADDED", pod("d", 10)), line("ERROR", expired)]]]
    async with running(script, streams) as (transport, seen, _):
        await until(lambda: len(transport.watches) == 2)
    assert seen.batches == [
        ["appeared a@3", "appeared b@4", "synced"],
        ["appeared d@10"],
        ["relisting"],
        ["gone b@4", "gone d@10", "changed a@20", "appeared c@21", "synced"],
    ]
    assert transport.watches[1]["resourceVersion"] == "30"


async def test_a_refused_watch_relists_too_but_silence_and_overload_resume() -> None:
    script = in_turn(listing(revision=9), listing(revision=12))
    streams: list[Stream] = [
        TransportError("no route"),
        refusal(429, "TooManyRequests", headers={"Retry-After": "7"}),
        [[line("ADDED", pod("a", 10))], TransportError("reset")],
        refusal(410, "Expired"),
    ]
    async with running(script, streams) as (transport, seen, clock):
        await until(lambda: len(transport.watches) == 5)
    assert seen.batches == [["synced"], ["appeared a@10"], ["relisting"], ["gone a@10", "synced"]]
    assert [watch["resourceVersion"] for watch in transport.watches] == ["9", "9", "9", "10", "12"]
    assert clock.slept[1] >= 7


async def test_failing_lists_are_retried_with_growing_waits() -> None:
    script = in_turn(*[refusal(500, "InternalError")] * 3, TransportError("down"), listing(revision=9))
    async with running(script, []) as (transport, seen, clock):
        await until(lambda: transport.watches)
    assert seen.batches == [["synced"]]
    assert clock.slept == sorted(clock.slept)
    assert len(clock.slept) == 4


async def test_between_two_pages_others_have_their_turn() -> None:
    turns = 0
    seen: list[int] = []

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    async def script(call: Call) -> Response:
        seen.append(turns)
        more = "" if len(seen) == 4 else f"page{len(seen)}"
        return listing(pod(f"p{len(seen)}", 3), revision=9, more=more)

    async with running(script, []) as (_, _, _):
        turn()
        await until(lambda: len(seen) == 4)
    assert seen == sorted(set(seen)), "no two pages in one turn"


async def test_an_expired_page_lists_all_in_one() -> None:
    script = in_turn(
        listing(pod("a", 3), revision=9, more="x"), refusal(410, "Expired"), listing(pod("b", 5), revision=12)
    )
    async with running(script, []) as (transport, seen, _):
        await until(lambda: transport.watches)
    assert transport.calls[-1].query == {"labelSelector": "app=x"}
    assert seen.batches == [["appeared b@5", "synced"]]


async def test_nulls_mean_absent_and_an_unreadable_object_is_skipped() -> None:
    odd, undecodable = pod("odd", 4, tolerations=None), pod("undecodable", 5, tolerations=7)
    script = in_turn(listing(pod("a", 3), odd, undecodable, revision=9))
    streams: list[Stream] = [[[line("MODIFIED", pod("odd", 10, containers=None)), line("MODIFIED", undecodable), b""]]]
    async with running(script, streams) as (_, seen, _clock):
        await until(lambda: len(seen.batches) == 2)
    assert seen.batches == [["appeared a@3", "appeared odd@4", "synced"], ["changed odd@10"]]


@pytest.mark.parametrize(
    ("kind", "at_first", "later"),
    [
        (custom_kind("example.com", "v1", "Sweep"), ["info"], ["info", "warning"]),
        (QUEUE, ["warning"], ["warning"]),
    ],
)
async def test_a_kind_of_others_may_be_served_later_before_that_is_a_warning(
    kind: Kind, at_first: list[str], later: list[str]
) -> None:
    async def script(call: Call) -> Response:
        return refusal(404, "NotFound")

    transport, clock = ScriptedTransport(script), ManualClock()
    informer = Informer(kind, WatchContext(transport=transport, publish=Seen().bus.publish, clock=clock))
    with capture_logs() as logs:
        task = asyncio.ensure_future(informer.run())
        await until(lambda: clock.time > 1_000_010.0)
        assert [log["log_level"] for log in logs] == at_first
        await until(lambda: clock.time > 1_000_100.0)
        task.cancel()
        await asyncio.wait([task])
    assert [log["log_level"] for log in logs] == later
    assert logs[-1]["event"] == "this kind is not served; install its CustomResourceDefinition"
    assert logs[-1]["resource"] == kind.resource


@pytest.mark.parametrize(
    ("code", "reason", "logged"), [(404, "NotFound", []), (403, "Forbidden", [NATIVE_POD_GROUP.resource])]
)
async def test_an_optional_kind_that_is_not_served_or_may_not_be_read_has_no_objects(
    code: int, reason: str, logged: list[str]
) -> None:
    """Consumers need not wait for it; an upgrade of the server may bring it later."""
    served = False

    async def script(call: Call) -> Response:
        return listing(pod("a", 3), revision=9) if served else refusal(code, reason)

    seen = Seen()
    context = WatchContext(transport=ScriptedTransport(script), publish=seen.bus.publish, clock=ManualClock())
    informer = Informer(NATIVE_POD_GROUP, context)
    with capture_logs() as logs:
        task = asyncio.ensure_future(informer.run())
        await informer.synced()
        assert seen.batches == [["synced"]]
        await informer.catch_up()
    assert [log["resource"] for log in logs] == logged
    served = True
    await until(lambda: len(seen.batches) == 2)
    assert seen.batches[1] == ["appeared a@3", "synced"]
    task.cancel()
    await asyncio.wait([task])


async def test_consumers_share_an_informer_and_own_writes_are_folded() -> None:
    async def script(call: Call) -> Response:
        return listing(revision=9)

    seen = Seen()
    informers = InformerSet(ScriptedTransport(script), seen.bus.publish, clock=ManualClock())
    first = informers.informer(POD)
    task = asyncio.ensure_future(informers.run())
    await informers.synced()
    assert informers.informer(POD) is first
    late = informers.informer(NODE)
    await late.synced()
    assert seen.batches == [["synced"], ["synced"]]

    created = informers.observe_own(POD.resource, msgspec.json.encode(pod("a", 10)))
    assert [event.change for event in created] == ["appeared"]
    assert informers.observe_own(POD.resource, pod("a", 10)) == []
    assert [event.change for event in informers.observe_own_delete(POD.resource, "ns", "a", "uid-a")] == ["gone"]
    assert informers.observe_own("unwatched", b"{}") == []
    task.cancel()
    await asyncio.wait([task])


async def test_a_stopped_informer_publishes_all_objects_as_gone() -> None:
    async def script(call: Call) -> Response:
        return listing(pod("a", 3), revision=9)

    seen = Seen()
    informers = InformerSet(ScriptedTransport(script), seen.bus.publish, clock=ManualClock())
    informers.informer(POD)
    task = asyncio.ensure_future(informers.run())
    await informers.synced()
    informers.forget(POD)
    informers.forget(NODE)
    assert seen.batches == [["appeared a@3", "synced"], ["gone a@3", "relisting"]]
    assert informers.observe_own(POD.resource, pod("a", 10)) == []
    await informers.informer(POD).synced()
    assert seen.batches[2:] == [["appeared a@3", "synced"]]
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def standby(script: Script, streams: list[Stream]) -> AsyncIterator[tuple[Informer, ScriptedTransport, Seen]]:
    """An informer that has listed and waits in its first watch, and publishes nothing yet."""
    transport, seen = ScriptedTransport(script, [[], *streams]), Seen()
    informer = Informer(POD, WatchContext(transport=transport, publish=seen.bus.publish, clock=ManualClock()))
    informer.silence()
    task = asyncio.ensure_future(informer.run())
    try:
        await until(lambda: len(transport.watches) > 1)
        yield informer, transport, seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_catching_up_waits_for_what_was_written_before() -> None:
    script = in_turn(listing(pod("a", 3), revision=9), listing(pod("a", 3), revision=30), listing(revision=25))
    late: list[Stream] = [None, [[line("ADDED", pod("b", 20))], [bookmark(30)]]]  # type: ignore[list-item]
    async with standby(script, late) as (informer, transport, seen):
        await informer.catch_up()
        assert set(informer.objects) == {"ns/a", "ns/b"}
        assert transport.calls[1].query == {"limit": "1"}
        assert transport.watches[2]["timeoutSeconds"] == "3"
        watches = len(transport.watches)
        await informer.catch_up()  # the bookmark proves it already
        assert len(transport.watches) == watches
        assert seen.batches == []


async def test_a_kind_that_is_not_served_needs_no_catching_up() -> None:
    script = in_turn(listing(pod("a", 3), revision=9), refusal(503, "ServiceUnavailable"), refusal(404, "NotFound"))
    async with standby(script, []) as (informer, _, _seen):
        await informer.catch_up()


async def test_a_silent_informer_announces_its_objects_and_then_every_change() -> None:
    script = in_turn(listing(pod("a", 3), pod("b", 4), revision=9))
    streams: list[Stream] = [None, [[line("MODIFIED", pod("a", 10))]]]  # type: ignore[list-item]
    async with standby(script, streams) as (informer, _, seen):
        assert seen.batches == []
        informer.announce()
        await until(lambda: len(seen.batches) == 3)
    assert seen.batches == [["appeared a@3", "appeared b@4"], ["synced"], ["changed a@10"]]


async def test_counters_of_an_informer_begin_at_zero() -> None:
    probe = PrometheusProbe(process=False)
    transport = ScriptedTransport(in_turn())
    Informer(POD, WatchContext(transport=transport, publish=list, clock=ManualClock(), probe=probe))
    page = probe.page().decode()
    for what in ("informer_failures", "informer_relists", "undecodable_objects"):
        assert f'volcanoio_{what}_total{{resource="pods"}} 0.0' in page
