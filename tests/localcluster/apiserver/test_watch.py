"""Watches: order, selectors, bookmarks, windows and slow readers."""

from __future__ import annotations

import msgspec
import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS, MERGE, PODS, Api, config_map, pod, running
from volcanoio.kube.transport import StreamRefused
from volcanoio.localcluster.apiserver.apimachinery.clock import WallClock
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.reader import WatchStream
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.store import Store, Watcher


async def test_a_watch_from_a_version_shows_all_that_came_after() -> None:
    async with running() as api:
        first = await api.made(CONFIG_MAPS, config_map("a"))
        await api.made(CONFIG_MAPS, config_map("b"))
        async with api.watch(CONFIG_MAPS, resourceVersion=first["metadata"]["resourceVersion"]) as lines:
            await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}, kind=MERGE)
            await api("DELETE", f"{CONFIG_MAPS}/a")
            events = [await lines.next() for _ in range(3)]
        assert [(type_, obj["metadata"]["name"]) for type_, obj in events] == [
            ("ADDED", "b"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
        ]
        versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
        assert versions == sorted(set(versions))
        assert events[2][1]["data"] == {"x": "1"}


async def test_a_watch_without_version_starts_with_existing_objects() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        async with api.watch(CONFIG_MAPS) as lines:
            await api.made(CONFIG_MAPS, config_map("b"))
            assert await lines.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_leaving_a_selection_is_deleted_and_entering_is_added() -> None:
    async with running() as api:
        async with api.watch(CONFIG_MAPS, labelSelector="in=yes") as lines:
            await api.made(CONFIG_MAPS, config_map("a", {"in": "no"}))
            for value in ("yes", "yes", "no", "no"):
                change = {"metadata": {"labels": {"in": value, "n": str(api.server.store.revision)}}}
                await api("PATCH", f"{CONFIG_MAPS}/a", change, kind=MERGE)
            await api("DELETE", f"{CONFIG_MAPS}/a")
            await api.made(CONFIG_MAPS, config_map("end", {"in": "yes"}))
            events = [await lines.next() for _ in range(4)]
        assert [type_ for type_, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
        left, before = events[2][1]["metadata"], events[1][1]["metadata"]
        assert left["labels"] == before["labels"]
        assert int(left["resourceVersion"]) > int(before["resourceVersion"])


async def test_field_selectors_see_the_transition_of_a_binding() -> None:
    async with running() as api, api.watch(PODS, fieldSelector="spec.nodeName=n1") as lines:
        await api.made(PODS, pod())
        await api("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}})
        await api("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert await lines.types_and_names(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("DELETED", "p")]


async def test_a_streamed_list_ends_with_the_bookmark() -> None:
    async with running() as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with api.watch(CONFIG_MAPS, **query) as lines:
            assert (await lines.next())[0] == "ADDED"
            type_, mark = await lines.next()
            assert (type_, mark["kind"], mark["apiVersion"]) == ("BOOKMARK", "ConfigMap", "v1")
            assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert mark["metadata"]["resourceVersion"] == str(api.server.store.revision)
            await api.made(CONFIG_MAPS, config_map("b"))
            assert await lines.types_and_names(1) == [("ADDED", "b")]
        async with api.watch(CONFIG_MAPS, **query | {"sendInitialEvents": "false"}) as lines:
            await api.made(CONFIG_MAPS, config_map("c"))
            assert await lines.types_and_names(1) == [("ADDED", "c")], "only what is new"
        with pytest.raises(StreamRefused):
            async with api.watch(CONFIG_MAPS, sendInitialEvents="true"):
                pass


async def test_versions_out_of_the_window_and_of_the_future_are_refused() -> None:
    server = ApiServer(Core(Store(window=3), WallClock()))
    async with server.running():
        api = Api(server)
        first = await api.made(CONFIG_MAPS, config_map("a"))
        for number in range(5):
            await api.made(CONFIG_MAPS, config_map(f"b{number}"))
        old = first["metadata"]["resourceVersion"]
        for asked, code, reason in ((old, 410, "Expired"), ("999999", 504, "Timeout")):
            async with api.watch(CONFIG_MAPS, resourceVersion=asked) as lines:
                type_, status = await lines.next()
                assert (type_, status["code"], status["reason"]) == ("ERROR", code, reason)
        future = await api("GET", CONFIG_MAPS, resourceVersion="999999")
        assert (future.code, future.reason) == (504, "Timeout")
        assert future.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        exact = await api("GET", CONFIG_MAPS, resourceVersion=old, resourceVersionMatch="Exact")
        assert exact.code == 410


async def test_a_slow_reader_has_to_list_again() -> None:
    store = Store()
    watcher = Watcher(backlog=2)
    ended: list[bool] = []
    stream = WatchStream(watcher, [], bookmark=None, seconds=0, closed=lambda: ended.append(True))
    store.collection("configmaps").subscribe(watcher, 0)
    for number in range(4):
        store.put(Ref("configmaps", "d", str(number)), {"metadata": {"name": str(number)}})
    assert len(await anext(stream)) == 2
    (line,) = await anext(stream)
    event = msgspec.json.decode(line)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert ended == [True]


async def test_one_encoding_is_shared_by_all_watchers() -> None:
    store = Store()
    watchers = [Watcher(), Watcher()]
    for watcher in watchers:
        store.collection("configmaps").subscribe(watcher, 0)
    store.put(Ref("configmaps", "d", "a"), {"metadata": {"name": "a"}})
    (one,), (other,) = (watcher.take() for watcher in watchers)
    assert one is other


async def test_watches_end_when_the_server_does() -> None:
    server = ApiServer.open(None)
    async with server.running():
        transport = Api(server).transport
        stream = transport.stream(CONFIG_MAPS, query={"watch": "true"})
        batches = await stream.__aenter__()
    assert [batch async for batch in batches] == []
    await stream.__aexit__(None, None, None)


async def test_a_closed_watch_is_forgotten() -> None:
    async with running() as api:
        async with api.watch(CONFIG_MAPS):
            assert api.server.store.collection("configmaps").watchers == 1
        assert api.server.store.collection("configmaps").watchers == 0
