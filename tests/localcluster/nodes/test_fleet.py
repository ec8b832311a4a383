"""Simulated nodes on the embedded API server, in virtual time."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.localcluster.nodes.cluster import PODS, cluster, collected
from volcanoio.localcluster.apiserver.http.faults import Action, Faults, Rule, When
from volcanoio.localcluster.apiserver.streams.pod_connections import LogSource, PodLogs
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.localcluster.nodes.container_runtime import SimulatedLogs
from volcanoio.localcluster.nodes.hollow import uniform_fleet
from volcanoio.model import names

ONE_CPU: dict[str, Any] = {"container": {"resources": {"requests": {"cpu": "1"}}}}
BOTH_CPUS: dict[str, Any] = {"container": {"resources": {"requests": {"cpu": "2"}}}}


async def test_nodes_register_and_keep_their_leases() -> None:
    async with cluster() as api, api.nodes(uniform_fleet(3)):
        nodes = {node["metadata"]["name"]: node for node in api.all("nodes")}
        assert set(nodes) == {"node-0", "node-1", "node-2"}
        offered = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        assert nodes["node-1"]["status"]["capacity"] == nodes["node-1"]["status"]["allocatable"] == offered
        assert nodes["node-1"]["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"
        before = (await api.call("GET", path))["spec"]["renewTime"]
        await api.clock.advance(25)
        assert (await api.call("GET", path))["spec"]["renewTime"] > before


async def test_a_bound_pod_runs_for_its_time() -> None:
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("p")
        assert await api.phases([0, 1, 4, 5], "p") == ["Pending", "Running", "Running", "Succeeded"]
        assert fleet.overcommitted == []
        assert api.reported("p") == ["Pulled", "Created", "Started"]
        pod = api.pod("p")
        assert pod is not None
        assert pod["status"]["podIP"].startswith("10.244.")


async def test_pods_that_do_not_fit_are_refused_and_counted() -> None:
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("a", **BOTH_CPUS)
        await api.submit("b", **ONE_CPU)
        assert await api.phases([1], "b") == ["Failed"]
        pod = api.pod("b")
        assert pod is not None
        assert pod["status"]["reason"] == "OutOfcpu"
        expected = "Node didn't have enough resource: cpu, requested: 1000, used: 2000, capacity: 2000"
        assert pod["status"]["message"] == f"Pod was rejected: {expected}"
        assert [(alarm.pod, alarm.node) for alarm in fleet.overcommitted] == [("default/b", "node-0")]
        assert api.phase("a") == "Running"


async def test_an_ended_pod_makes_room() -> None:
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("a", **BOTH_CPUS)
        await api.until(lambda: api.phase("a") == "Succeeded")
        await api.submit("b", **BOTH_CPUS)
        await api.until(lambda: api.phase("b") == "Succeeded")
        assert fleet.overcommitted == []


async def test_a_missing_config_map_keeps_a_pod_in_container_creating() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("p", volumes=[{"name": "hosts", "configMap": {"name": "hosts"}}])
        await api.clock.advance(30)
        pod = api.pod("p")
        assert pod is not None
        assert pod["status"]["phase"] == "Pending"
        assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
        assert "FailedMount" in api.reported("p")
        await api.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "hosts"}})
        assert await api.phases([2, 6], "p") == ["Running", "Succeeded"]


async def test_a_claim_is_bound_when_first_used() -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    async with cluster() as api, api.nodes():
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await api.call("POST", claims, {"metadata": {"name": "data"}, "spec": spec})
        await api.clock.advance(30)
        claim = await api.call("GET", f"{claims}/data")
        assert claim.get("status", {}).get("phase") in (None, "Pending")
        await api.submit("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        await api.until(lambda: api.phase("p") == "Running")
        claim = await api.call("GET", f"{claims}/data")
        assert claim["status"]["phase"] == "Bound"
        volume = await api.call("GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        assert volume["spec"]["claimRef"]["name"] == "data"


async def test_a_deleted_pod_ends_before_it_is_removed() -> None:
    seen: list[tuple[str, str]] = []
    async with cluster() as api, api.nodes(), anyio.create_task_group() as tasks:
        tasks.start_soon(collected, api, PODS, seen)
        await api.submit("p", restartPolicy="OnFailure")
        await api.until(lambda: api.phase("p") == "Running")
        await api.call("DELETE", f"{PODS}/p")
        await api.until(lambda: api.phase("p") == "gone")
        await api.until(lambda: seen[-1][0] == "DELETED")
        assert seen[-2:] == [("MODIFIED", "Failed"), ("DELETED", "Failed")]
        assert "Killing" in api.reported("p")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("stop", "writes"), [("200ms", 1), ("20s", 2)])
async def test_a_pod_that_ends_in_a_moment_is_not_written_about_before(stop: str, writes: int) -> None:
    """A kubelet also says that it knows of the delete: worth a write where the end takes its time."""
    seen: list[tuple[str, str]] = []
    async with cluster() as api, api.nodes(), anyio.create_task_group() as tasks:
        tasks.start_soon(collected, api, PODS, seen)
        await api.submit("p", annotations={names.STOP_DURATION: stop, names.RUN_DURATION: "1h"})
        await api.until(lambda: api.phase("p") == "Running")
        await api.clock.advance(0.1)
        known = len(seen)
        await api.call("DELETE", f"{PODS}/p")
        await api.until(lambda: seen[-1][0] == "DELETED")
        about = [phase for _, phase in seen[known:]]
        assert about == ["Running"] * writes + ["Failed"] * 3, "its end, that it may go, and that it went"
        tasks.cancel_scope.cancel()


async def test_a_pod_deleted_before_its_start_is_removed() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("p", volumes=[{"name": "v", "secret": {"secretName": "none"}}])
        await api.clock.advance(5)
        await api.call("DELETE", f"{PODS}/p")
        await api.until(lambda: api.phase("p") == "gone", limit=5)


async def test_a_pod_deleted_by_force_makes_room() -> None:
    async with cluster() as api, api.nodes() as fleet:
        await api.submit("a", **BOTH_CPUS)
        await api.until(lambda: api.phase("a") == "Running")
        await api.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        await api.clock.advance(1)
        await api.submit("b", **BOTH_CPUS)
        await api.until(lambda: api.phase("b") == "Running")
        assert fleet.overcommitted == []


def place_in_a_job(index: str, retries: str = "0") -> dict[str, Any]:
    annotations = {
        names.TASK_SPEC: "worker", names.TASK_INDEX: index, names.JOB_RETRY_COUNT: retries,
        names.FAIL_ATTEMPTS: "1", names.RUN_DURATION: "4s",
    }  # fmt: skip
    return {"annotations": annotations}


async def test_fail_attempts_count_over_recreated_pods() -> None:
    async with cluster() as api, api.nodes():
        for name, index, end in (("first", "0", "Failed"), ("again", "0", "Succeeded"), ("other", "1", "Failed")):
            await api.submit(name, **place_in_a_job(index))
            assert await api.phases([5], name) == [end]


async def test_fail_attempts_survive_a_restart() -> None:
    async with cluster() as api:
        async with api.nodes():
            await api.submit("first", **place_in_a_job("0"))
            assert await api.phases([5], "first") == ["Failed"]
        async with api.nodes():
            await api.submit("again", **place_in_a_job("0", retries="1"))
            assert await api.phases([5], "again") == ["Succeeded"]


async def test_a_bad_annotation_is_shown_where_people_look() -> None:
    async with cluster() as api, api.nodes():
        await api.submit("p", annotations={names.RUN_DURATION: "soon"})
        await api.clock.advance(60)
        pod = api.pod("p")
        assert pod is not None
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert names.RUN_DURATION in waiting["message"]
        assert "Failed" in api.reported("p")


async def test_a_bad_annotation_keeps_a_pod_waiting_over_a_restart() -> None:
    async with cluster() as api:
        for _ in range(2):
            async with api.nodes():
                if api.pod("p") is None:
                    await api.submit("p", annotations={names.RUN_DURATION: "soon"})
                await api.clock.advance(60)
        pod = api.pod("p")
        assert pod is not None
        assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        assert api.phase("p") == "Pending"


async def test_nodes_see_late_and_count_long_when_they_lag() -> None:
    async with cluster() as api, api.nodes(kubelet_lag=5.0) as fleet:
        await api.submit("a", **BOTH_CPUS)
        assert await api.phases([4.9, 5.3, 9.1], "a") == ["Pending", "Running", "Running"]
        await api.submit("early", **ONE_CPU)  # a scheduler that does not wait for the end of a
        await api.until(lambda: api.phase("a") == "Succeeded")
        await api.clock.advance(1)
        await api.submit("late", **ONE_CPU)
        await api.until(lambda: api.phase("late") == "Running")
        assert [alarm.pod for alarm in fleet.overcommitted] == ["default/early"]


async def test_after_a_crash_nodes_go_on_from_what_is_stored() -> None:
    async with cluster() as api:
        async with api.nodes():
            await api.submit("running")
            await api.clock.advance(2)
            await api.submit("deleting", annotations={names.STOP_DURATION: "20s"})
            await api.clock.advance(1)
            await api.call("DELETE", f"{PODS}/deleting")
        await api.submit("bound-while-down", **BOTH_CPUS)
        assert await api.phases([60], "running") == ["Running"]
        async with api.nodes() as fleet:
            assert await api.phases([0.5, 5], "running") == ["Succeeded", "Succeeded"]
            assert api.phase("bound-while-down") == "Succeeded"
            await api.until(lambda: api.phase("deleting") == "gone")
            assert fleet.overcommitted == []


async def test_nodes_that_are_no_more_take_their_pods_along() -> None:
    async with cluster() as api:
        async with api.nodes(uniform_fleet(2)):
            await api.submit("stays", annotations={names.RUN_DURATION: "never"})
            await api.submit("lost", nodeName="node-1", annotations={names.RUN_DURATION: "never"})
            await api.clock.advance(1)
        async with api.nodes(uniform_fleet(1)):
            await api.until(lambda: api.phase("lost") == "gone")
            assert api.phase("stays") == "Running"
            assert [node["metadata"]["name"] for node in api.all("nodes")] == ["node-0"]


@pytest.mark.parametrize(
    ("action", "when", "code"),
    [
        ("status", "before", 403), ("status", "before", 409), ("status", "before", 429), ("status", "after", 500),
        ("status", "before", 503), ("reset", "before", 0), ("reset", "after", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nth", [1, 2], ids=["Running", "Succeeded"])
async def test_faulty_status_writes_are_repeated(action: Action, when: When, code: int, nth: int) -> None:
    faults = Faults(Rule("PATCH", "/pods/p/status", action, when, nth, code))
    async with cluster(faults) as api, api.nodes():
        await api.submit("p")
        assert await api.phases([2, 10], "p") == ["Running", "Succeeded"]


async def test_a_pod_of_the_same_name_is_not_taken_for_the_old_one() -> None:
    async with cluster() as api, api.nodes():
        old = await api.submit("p", annotations={names.RUN_DURATION: "never"})
        await api.until(lambda: api.phase("p") == "Running")
        await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        new = await api.submit("p")
        await api.until(lambda: api.phase("p") == "Succeeded")
        assert old["metadata"]["uid"] != new["metadata"]["uid"]


async def test_logs_are_followed_to_the_end_of_the_pod() -> None:
    async with cluster() as api, api.nodes():
        source: LogSource = SimulatedLogs(api.transport, api.clock)
        api.server.routes.append(PodLogs(api.server.handle, source, api.server.core.clock))
        await api.submit("p", container={"command": ["sh", "-c", "echo hello; sleep 4"]})
        await api.until(lambda: api.phase("p") == "Running")
        lines: list[bytes] = []
        ended = anyio.Event()

        async def follow() -> None:
            async with api.transport.stream(f"{PODS}/p/log", query={"follow": "true"}) as batches:
                async for batch in batches:
                    lines.extend(batch)
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await api.until(ended.is_set)
        assert lines[0] == b"hello"
        assert lines[-1] == b"exit code 0 (Completed)"
        assert b"running for 2s" in lines


async def test_following_ends_with_the_run_that_was_followed() -> None:
    async with cluster() as api, api.nodes():
        source: LogSource = SimulatedLogs(api.transport, api.clock)
        api.server.routes.append(PodLogs(api.server.handle, source, api.server.core.clock))
        await api.submit("p", restartPolicy="OnFailure", annotations={names.EXIT_CODE: "2", names.RUN_DURATION: "4s"})
        await api.until(lambda: api.phase("p") == "Running")
        lines: list[bytes] = []

        async def follow() -> None:
            async with api.transport.stream(f"{PODS}/p/log", query={"follow": "true"}) as batches:
                async for batch in batches:
                    lines.extend(batch)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await api.clock.advance(60)
        assert lines[-1] == b"exit code 2 (Error)"
        assert lines.count(b"exit code 2 (Error)") == 1


async def test_many_pods_are_written_as_few_times_as_can_be() -> None:
    faults = Faults()
    async with cluster(faults) as api, api.nodes(uniform_fleet(10), events=False) as fleet:
        for number in range(50):
            await api.submit(f"p{number}", nodeName=f"node-{number % 10}")
        await api.until(lambda: all(pod.get("status", {}).get("phase") == "Succeeded" for pod in api.all("pods")))
        writes = [r for r in faults.requests if r.method == "PATCH" and "/pods/" in r.path]
        assert len(writes) == 2 * 50
        assert fleet.pods == 50


async def test_where_waits_are_skipped_leases_are_renewed_in_time_and_no_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VirtualClock, "skips", True)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0"
    async with cluster() as api, api.nodes():
        renewals = set()
        for _ in range(300):
            await api.clock.advance(1)
            renewals.add((await api.call("GET", path))["spec"]["renewTime"])
        assert 9 <= len(renewals) <= 12
