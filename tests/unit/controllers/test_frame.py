"""The shared frame: tables, the backlog, and a host that watches no more than it must."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from volcanoio.framework.effects import Delete
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.localcluster.controllers.frame.backlog import FIRST, MOST, Backlog
from volcanoio.localcluster.controllers.frame.contract import Write, in_slow_start
from volcanoio.localcluster.controllers.frame.host import ControllerHost
from volcanoio.localcluster.controllers.frame.tables import Table
from volcanoio.localcluster.controllers.hashing import short_hash
from volcanoio.localcluster.controllers.jobs.indexes import parsed, shown
from volcanoio.localcluster.controllers.quantities import scaled
from volcanoio.localcluster.controllers.roster import controllers
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.core import Pod, PodSpec


def pod(name: str, owner: str = "", node: str = "", namespace: str = "ns") -> Pod:
    """A pod."""
    owners = (OwnerReference(uid=owner, controller=True),) if owner else ()
    meta = ObjectMeta(name=name, namespace=namespace, uid=name, owner_references=owners)
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def seen(change: Change, obj: Pod) -> Observed:
    """An event."""
    return Observed(resource="pods", change=change, object=obj)


def test_a_table_finds_by_namespace_owner_and_node() -> None:
    table = Table()
    table.fold(seen(Change.APPEARED, pod("a")))
    assert list(table.loose("ns")) == ["ns/a"]
    table.fold(seen(Change.CHANGED, pod("a", owner="rs", node="n1")))
    assert not table.loose("ns")
    assert list(table.controlled("rs")) == list(table.on_node("n1")) == list(table.namespace("ns")) == ["ns/a"]
    table.fold(seen(Change.GONE, pod("a", owner="rs", node="n1")))
    assert not table.controlled("rs")
    assert not table.on_node("n1")
    assert not table.namespace("ns")
    assert not list(table.nodes)


async def test_a_key_is_worked_on_by_one_at_a_time() -> None:
    backlog = Backlog()
    backlog.add(("c", "k"))
    backlog.add(("c", "k"))
    item = await backlog.take()
    assert len(backlog) == 1
    backlog.add(item)
    again = asyncio.ensure_future(backlog.take())
    await asyncio.sleep(0)
    assert not again.done()
    backlog.done(item)
    assert await again == item


def test_the_back_off_grows_and_ends() -> None:
    backlog = Backlog()
    item = ("c", "k")
    delays = [backlog.back_off(item) for _ in range(40)]
    assert delays[:3] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert delays[-1] == MOST
    backlog.succeeded(item)
    assert backlog.back_off(item) == FIRST


def test_a_slow_start_doubles() -> None:
    write = Write(Delete(resource="pods", namespace="ns", name="a", uid="u"))
    assert [len(stage) for stage in in_slow_start([write] * 10)] == [1, 2, 4, 3]


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2, 5], "0-2,5"), ([3, 5, 6, 7], "3,5-7")]
)
def test_indexes_are_written_and_read(indexes: list[int], text: str) -> None:
    assert shown(indexes) == text
    assert parsed(text, 10) == set(indexes)


def test_indexes_beyond_the_completions_do_not_count() -> None:
    assert parsed("0-9", 3) == {0, 1, 2}
    assert parsed("nonsense,-3,2", 3) == {2}


@pytest.mark.parametrize(
    ("amount", "up", "result"),
    [(2, True, 2), ("25%", True, 3), ("25%", False, 2), ("0%", True, 0), ("junk", True, 0), (None, True, 0)],
)
def test_percentages_are_rounded(amount: Any, up: bool, result: int) -> None:
    assert scaled(amount, 10, up=up) == result


def test_hashes_differ_by_content_and_collision_and_not_by_order() -> None:
    assert short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1})
    assert len({short_hash({"a": 1}), short_hash({"a": 2}), short_hash({"a": 1}, 1), short_hash({"a": 1}, 2)}) == 4


class Watching(InProcessTransport):
    """Notes what is watched."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.watched: set[str] = set()

    def stream(self, path: str, *, query: Any = None) -> Any:
        """Note it."""
        self.watched.add(path)
        return super().stream(path, query=query)


async def test_pods_are_watched_only_once_somebody_needs_them() -> None:
    clock = VirtualClock()
    async with ApiServer.open(None).running() as server:
        transport = Watching(server)
        host = ControllerHost(transport, clock, controllers())
        running = asyncio.ensure_future(host.run())
        await host.synced()
        await clock.advance(30.0)
        assert "/apis/apps/v1/deployments" in transport.watched
        assert "/api/v1/pods" not in transport.watched
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": spec}
        made = await transport.request(
            "POST", "/apis/apps/v1/namespaces/default/replicasets", body=json.dumps(body).encode()
        )
        assert made.status == 201
        await clock.run_until(lambda: len(server.store.collection("pods").objects) == 2)
        assert "/api/v1/pods" in transport.watched
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
