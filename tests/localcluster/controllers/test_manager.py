"""The shared frame: tables, the backlog, and a host that watches no more than it must."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from volcanoio.compose.controllers import WorkloadControllers
from volcanoio.compose.local import all_controllers
from volcanoio.engine.hosting.object_cache import ObjectCache
from volcanoio.framework.effects import Delete
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import Write, in_slow_start
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.localcluster.controllers.controller_revisions import short_hash
from volcanoio.localcluster.controllers.jobs.job_status import format_indexes, parse_indexes
from volcanoio.localcluster.controllers.objects import scaled
from volcanoio.localcluster.controllers.podgc import QUARANTINE, PodCollector
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.core import Pod, PodSpec
from volcanoio.model.kinds import POD


def pod(name: str, owner: str = "", node: str = "", namespace: str = "ns") -> Pod:
    """A pod."""
    owners = (OwnerReference(uid=owner, controller=True),) if owner else ()
    meta = ObjectMeta(name=name, namespace=namespace, uid=name, owner_references=owners)
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def seen(change: Change, obj: Pod) -> Observed:
    """An event."""
    return Observed(resource="pods", change=change, object=obj)


def test_the_cache_finds_by_namespace_controller_and_node() -> None:
    cache = ObjectCache()
    objects = Objects(cache)
    cache.fold(seen(Change.APPEARED, pod("a")))
    assert [one.metadata.name for one in objects.orphans(POD, "ns", Pod)] == ["a"]
    assert not objects.on_node("n1")
    bound = pod("a", owner="rs", node="n1")
    cache.fold(seen(Change.CHANGED, bound))
    assert not objects.orphans(POD, "ns", Pod)
    assert objects.controlled(POD, "rs", Pod) == objects.on_node("n1") == objects.namespace(POD, "ns", Pod) == [bound]
    cache.fold(seen(Change.GONE, bound))
    assert not objects.controlled(POD, "rs", Pod)
    assert not objects.on_node("n1")
    assert not objects.namespace(POD, "ns", Pod)
    assert not list(objects.nodes_with_pods())


def test_a_slow_start_doubles() -> None:
    write = Write(Delete(resource="pods", namespace="ns", name="a", uid="u"))
    assert [len(stage) for stage in in_slow_start([write] * 10)] == [1, 2, 4, 3]


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2, 5], "0-2,5"), ([3, 5, 6, 7], "3,5-7")]
)
def test_indexes_are_written_and_read(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == set(indexes)


def test_indexes_beyond_the_completions_do_not_count() -> None:
    assert parse_indexes("0-9", 3) == {0, 1, 2}
    assert parse_indexes("nonsense,-3,2", 3) == {2}


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
        host = WorkloadControllers(transport, clock, all_controllers())
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


async def test_a_controller_can_be_woken_from_outside() -> None:
    """Its own kind need not change: the collector is woken by a pod on a node that never existed."""
    clock = VirtualClock()
    async with ApiServer.open(None).running() as server:
        transport = Watching(server)
        host = WorkloadControllers(transport, clock, all_controllers())
        running = asyncio.ensure_future(host.run())
        await host.synced()
        spec = {"nodeName": "never-existed", "containers": [{"name": "c", "image": "i"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        await transport.request("POST", "/api/v1/namespaces/default/pods", body=json.dumps(body).encode())
        host.wake(PodCollector.name)
        await clock.advance(QUARANTINE - 1.0)
        assert server.store.collection("pods").objects
        await clock.advance(2.0)
        assert not server.store.collection("pods").objects
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
