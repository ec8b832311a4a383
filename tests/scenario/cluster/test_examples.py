"""The seven inputs of config/examples, each driven over HTTPS from create to its end."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import Event, Pod
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path


async def test_1_nginx_runs_six_web_servers_with_volumes_and_plugins() -> None:
    async with cluster() as c:
        await c.example("00-priority-classes.yaml", "01-nginx.yaml")
        await c.job("nginx", "Running")
        pods = await c.pods("nginx-default-nginx-")
        assert [pod.metadata.name for pod in pods] == [f"nginx-default-nginx-{index}" for index in range(6)]
        manifest = await c.client.get_raw(kinds.POD, "nginx-default-nginx-2", "default")
        spec = manifest["spec"]
        mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert "emptyDir" in volumes[mounts["/myinput"]]
        assert volumes[mounts["/myoutput"]]["persistentVolumeClaim"]["claimName"] == "testvolumeclaimname"
        claim = await c.client.get_raw(kinds.PVC, "testvolumeclaimname", "default")
        assert claim["spec"]["storageClassName"] == "my-storage-class"
        assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
        assert spec["schedulerName"] == "volcano"
        assert spec["priorityClassName"] == "high-prio"
        assert spec["priority"] == 1000
        assert spec["restartPolicy"] == "OnFailure"
        environment = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
        assert environment["VK_TASK_INDEX"] == environment["VC_TASK_INDEX"] == "2"
        hosts = await c.client.get_raw(kinds.CONFIG_MAP, "nginx-svc", "default")
        assert hosts["data"]["default_nginx.host"].splitlines() == [f"nginx-default-nginx-{i}.nginx" for i in range(6)]
        secret = await c.client.get_raw(kinds.SECRET, "nginx-ssh", "default")
        assert base64.b64decode(secret["data"]["id_rsa"]).startswith(b"-----BEGIN RSA PRIVATE KEY-----")
        assert secret["data"]["authorized_keys"] == secret["data"]["id_rsa.pub"]
        done = await c.job("nginx", "Completed")
        assert done.status.succeeded == 6
        assert done.status.retry_count == 0


async def test_2_tensorflow_completes_when_both_workers_are_done() -> None:
    async with cluster() as c:
        await c.example("02-tensorflow-dist-mnist.yaml")
        done = await c.job("tensorflow-dist-mnist", "Completed")
        assert done.status.task_status_count["worker"].phase == {"Succeeded": 2}
        left = {pod.metadata.name: pod.status.phase for pod in await c.pods("tensorflow-dist-mnist-")}
        assert left == {
            "tensorflow-dist-mnist-worker-0": "Succeeded",
            "tensorflow-dist-mnist-worker-1": "Succeeded",
        }


@pytest.mark.parametrize("ending", ["", "\n"], ids=["as svc writes it", "with a newline at its end"])
@pytest.mark.parametrize(("task", "index"), [("ps", 0), ("worker", 0), ("worker", 1)])
def test_2_the_shell_of_the_manifest_makes_valid_json(tmp_path: Path, task: str, index: int, ending: str) -> None:
    """The real shell lines, with the host files where the svc plugin mounts them and a python that shows TF_CONFIG."""
    manifest = read_manifests(config_path("examples", "02-tensorflow-dist-mnist.yaml"))[0]
    template = next(each for each in manifest["spec"]["tasks"] if each["name"] == task)["template"]
    script = template["spec"]["containers"][0]["command"][2].replace("/etc/volcano", str(tmp_path))
    job = "tensorflow-dist-mnist"
    for name, count in (("ps", 1), ("worker", 2)):
        lines = "\n".join(f"{job}-{name}-{number}.{job}" for number in range(count))
        (tmp_path / f"{name}.host").write_text(lines + ending)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf %s "$TF_CONFIG"\n')
    python.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VK_TASK_INDEX": str(index)}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    config = json.loads(done.stdout)
    assert config["cluster"] == {
        "ps": [f"{job}-ps-0.{job}:2222"],
        "worker": [f"{job}-worker-0.{job}:2222", f"{job}-worker-1.{job}:2222"],
    }
    assert config["task"] == {"type": task, "index": index}


async def test_3_mindspore_runs_as_many_as_fit_and_completes_all() -> None:
    async with cluster(nodes=1, node_resources="cpu=3,memory=16Gi") as c:
        await c.example("03-mindspore.yaml")
        await c.until(
            kinds.POD,
            Pod,
            lambda pods: sum(pod.status.phase == "Running" for pod in pods.values()) == 3,
            "three pods running on three CPUs",
        )
        done = await c.job("mindspore-cpu", "Completed")
        assert done.status.succeeded == 8


async def test_4_any_event_restarts_the_job_once_and_then_it_completes() -> None:
    async with cluster() as c:
        phases = await _phases_until(c, "restart-any", "Completed", "04-restart-any.yaml")
        assert "Restarting" in phases
        assert "Failed" not in phases
        job = await c.job("restart-any", "Completed")
        assert job.status.retry_count == 1


async def test_4_with_its_retries_used_up_the_job_ends_failed() -> None:
    async with cluster() as c:
        manifest = read_manifests(config_path("examples", "04-restart-any.yaml"))[0]
        template = manifest["spec"]["tasks"][0]["template"]
        template["metadata"]["annotations"]["sim.volcanoio.dev/fail-attempts"] = "99"
        await c.create(manifest)
        failed = await c.job("restart-any", "Failed")
        assert failed.status.retry_count == manifest["spec"]["maxRetry"]


async def test_4_a_plain_job_whose_pod_fails_once_restarts_and_completes() -> None:
    policies = [{"event": "*", "action": "RestartJob"}]
    once = {"sim.volcanoio.dev/fail-attempts": "1"}
    async with cluster() as c:
        await c.create(job_manifest("plain", replicas=1, annotations=once, policies=policies))
        done = await c.job("plain", "Completed")
        assert (done.status.retry_count, done.status.succeeded) == (1, 1)


async def _phases_until(c: Cluster, name: str, last: str, *files: str) -> list[str]:
    seen: list[str] = []

    def fold(jobs: dict[str, Job]) -> bool:
        phase = jobs[name].status.state.phase if name in jobs else ""
        if phase and (not seen or seen[-1] != phase):
            seen.append(phase)
        return phase == last

    await c.example(*files)
    await c.until(kinds.JOB, Job, fold, f"{name} {last}")
    return seen


async def test_5_when_only_three_of_the_spark_pods_fit_the_driver_is_among_them() -> None:
    async with cluster(nodes=1, node_resources="cpu=3,memory=16Gi") as c:
        await c.example("00-priority-classes.yaml", "05-spark.yaml")
        pods = await c.until(
            kinds.POD, Pod, lambda all_: sum(bool(pod.spec.node_name) for pod in all_.values()) >= 3, "three placed"
        )
        placed = {name for name, pod in pods.items() if pod.spec.node_name}
        assert "spark-pi-driver-0" in placed
        assert len(placed) == 3
        done = await c.job("spark-pi", "Completed")
        assert done.status.succeeded == 6


async def test_6_the_second_ray_cluster_waits_for_the_queue_and_runs_when_the_first_is_deleted() -> None:
    async with cluster() as c:
        await c.example("06-kuberay-queue.yaml")
        first = read_manifests(config_path("examples", "06-kuberay-raycluster-1.yaml"))
        second = read_manifests(config_path("examples", "06-kuberay-raycluster-2.yaml"))
        for each in (*first, *second):
            if each["kind"] == "Pod":
                each["metadata"]["annotations"]["sim.volcanoio.dev/run-duration"] = "never"
        for each in first:
            await c.create(each)
        running = await c.group("ray-test-cluster-1-pg", lambda g: g.status.running == 3, "running 3")
        running = await c.group(
            "ray-test-cluster-1-pg", lambda g: g.status.phase == "Running" and g.status.running == 3, "Running"
        )
        assert running.status.conditions[-1].type == "Scheduled"
        queue = await c.queue("kuberay-test-queue", lambda q: q.status.running == 1, "running 1")
        assert queue.status.state == "Open"
        for each in second:
            await c.create(each)
        waiting = await c.group("ray-test-cluster-2-pg", lambda g: bool(g.status.conditions), "has a condition")
        assert waiting.status.phase == "Pending"
        assert waiting.status.conditions[-1].type == "Unschedulable"
        assert waiting.status.conditions[-1].reason == "NotEnoughResources"
        failed = await c.events("test-cluster-2-head", "FailedScheduling")
        assert failed[0].source["component"] == "volcano"
        assert failed[0].message == (
            "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; "
            "Pending: 3 Unschedulable. "
            "Origin reason is queue resource quota insufficient: insufficient cpu, insufficient memory"
        )
        assert not any(pod.spec.node_name for pod in await c.pods("test-cluster-2-"))
        for each in first:
            kind = kinds.named(each["apiVersion"], each["kind"])
            assert kind is not None
            await c.client.delete(kind, each["metadata"]["name"], "default")
        started = await c.group("ray-test-cluster-2-pg", lambda g: g.status.phase == "Running", "Running")
        assert started.status.running >= 0
        await c.group("ray-test-cluster-2-pg", lambda g: g.status.running == 3, "running 3")


async def test_the_events_of_a_job_can_be_read() -> None:
    async with cluster() as c:
        await c.example("07-two-gangs.yaml")
        await c.job("gang-a", "Completed")
        await c.job("gang-b", "Completed")
        scheduled = await c.until(
            kinds.EVENT,
            Event,
            lambda all_: sum("Successfully assigned" in each.message for each in all_.values()) >= 2,
            "an event of each gang about its binds",
        )
        messages = [each.message for each in scheduled.values() if each.reason == "Scheduled"]
        assert any("default/gang-a-member-0 to node-" in message for message in messages)
