"""Nodes that fail, flap and are drained, on the embedded API server in virtual time."""

from __future__ import annotations

from typing import Any

from tests.localcluster.nodes.cluster import PODS, Cluster, cluster
from volcanoio.localcluster.nodes.hollow import uniform_fleet
from volcanoio.model import names

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0"
NEVER = {names.RUN_DURATION: "never"}


async def annotate(api: Cluster, annotations: dict[str, str | None], node: str = "node-0") -> None:
    await api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})


async def renewed(api: Cluster) -> str:
    return str((await api.call("GET", LEASE))["spec"]["renewTime"])


async def test_a_failed_node_renews_nothing_and_writes_nothing_until_it_recovers() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("ends")
        await api.until(lambda: api.phase("ends") == "Running")
        await annotate(api, {names.NODE_NOT_READY_AT: "now"})
        await api.clock.advance(1)
        before = await renewed(api)
        await api.submit("late")
        await api.clock.advance(60)
        assert await renewed(api) == before
        assert (api.phase("ends"), api.phase("late")) == ("Running", "Pending")
        await annotate(api, {names.NODE_NOT_READY_AT: None})
        await api.clock.advance(1)
        assert await renewed(api) > before
        assert api.phase("ends") == "Succeeded"
        await api.until(lambda: api.phase("late") == "Succeeded")
        await api.until(lambda: "NodeReady" in api.reported("node-0"))


async def test_the_time_of_a_failure_is_stored_so_that_it_means_the_same_later() -> None:
    async with cluster() as api:
        async with api.nodes():
            await annotate(api, {names.NODE_NOT_READY_AT: "now,for=1m"})
            await api.clock.advance(10)
            node = next(api.all("nodes"))
            assert "now" not in node["metadata"]["annotations"][names.NODE_NOT_READY_AT]
        async with api.nodes():
            await api.submit("p")
            assert await api.phases([1, 60], "p") == ["Pending", "Succeeded"]


async def test_a_pod_that_went_while_its_node_was_out_makes_room_when_it_is_back() -> None:
    both: dict[str, Any] = {"container": {"resources": {"requests": {"cpu": "2"}}}}
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("a", annotations=NEVER, **both)
        await api.until(lambda: api.phase("a") == "Running")
        await annotate(api, {names.NODE_NOT_READY_AT: "now,for=60s"})
        await api.clock.advance(1)
        await api.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        await api.submit("b", **both)
        await api.clock.advance(50)
        assert api.phase("b") == "Pending"
        await api.until(lambda: api.phase("b") == "Succeeded")
        assert fleet.overcommitted == []


async def test_a_pod_deleted_while_its_node_is_out_ends_when_it_is_back() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("a", annotations=NEVER)
        await api.until(lambda: api.phase("a") == "Running")
        await annotate(api, {names.NODE_NOT_READY_AT: "now,for=60s"})
        await api.clock.advance(1)
        await api.call("DELETE", f"{PODS}/a")
        await api.clock.advance(50)
        assert api.phase("a") == "Running"
        await api.until(lambda: api.phase("a") == "gone", limit=30)


async def test_a_node_reports_ready_after_it_was_marked_unknown() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("p", annotations=NEVER)
        await api.until(lambda: api.phase("p") == "Running")
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await api.patch(f"{PODS}/p/status", unready)
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await api.patch("/api/v1/nodes/node-0/status", {"status": {"conditions": [ready]}})
        await api.clock.advance(1)
        pod = api.pod("p")
        assert pod is not None
        assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"] == "True"
        node = next(api.all("nodes"))
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"


async def test_a_flapping_node_comes_and_goes() -> None:
    async with cluster() as api, api.nodes():
        await annotate(api, {names.NODE_FLAP: "every=100s,down=50s,from=now"})
        await api.clock.advance(45)
        times = []
        for _ in range(4):
            await api.clock.advance(50)
            times.append(await renewed(api))
        down, up, down_again, up_again = times
        assert down < up < up_again
        assert down_again[:18] == up[:18] or down_again < up_again


async def test_a_drain_cordons_and_evicts_what_budgets_allow() -> None:
    async with cluster() as api, api.nodes(uniform_fleet(2)):
        await api.submit("here", annotations=NEVER)
        await api.submit("there", nodeName="node-1", annotations=NEVER)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec}
        made = await api.call("POST", "/apis/apps/v1/namespaces/default/daemonsets", daemons)
        owner: dict[str, Any] = {key: daemons[key] for key in ("apiVersion", "kind")}
        owner |= {"name": "d", "uid": made["metadata"]["uid"], "controller": True}
        await api.submit("daemon", annotations=NEVER, metadata={"ownerReferences": [owner]})
        await api.until(lambda: api.phase("there") == "Running")
        await annotate(api, {names.NODE_DRAIN: "now"})
        await api.until(lambda: api.phase("here") == "gone", limit=60)
        nodes = {node["metadata"]["name"]: node["spec"] for node in api.all("nodes")}
        assert nodes["node-0"]["unschedulable"]
        assert not nodes["node-1"].get("unschedulable")
        assert (api.phase("there"), api.phase("daemon")) == ("Running", "Running")


async def test_a_bad_annotation_is_reported_on_the_node() -> None:
    async with cluster() as api, api.nodes():
        await annotate(api, {names.NODE_FLAP: "often"})
        await api.clock.advance(1)
        assert "InvalidAnnotation" in api.reported("node-0")


async def test_pods_that_do_not_tolerate_the_node_are_refused() -> None:
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("p", nodeSelector={"zone": "a"})
        await api.clock.advance(1)
        pod = api.pod("p")
        assert pod is not None
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "NodeAffinity")
        assert pod["status"]["message"] == (
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
        assert fleet.overcommitted == []
