"""What job plugins give the pods of a Job, as their containers see it: over the API server, by the real controllers."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from tests.scenario.cluster.containers import environment, files, read
from tests.scenario.cluster.harness import Cluster, cluster
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import ConfigMap, Secret

LIMIT = 256 * 1024


def container(name: str = "main", **more: Any) -> Manifest:
    return {"name": name, "image": "none", "command": ["run"], **more}


def task(name: str, replicas: int, *containers: Manifest, annotations: Any = None, **spec: Any) -> Manifest:
    """A task whose pods have an init container and run until they are ended."""
    pod = {
        "restartPolicy": "OnFailure",
        "containers": list(containers or (container(),)),
        "initContainers": [container("init")],
        **spec,
    }
    notes = {"sim.volcanoio.dev/run-duration": "never", **(annotations or {})}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": notes}, "spec": pod}}


async def submit(c: Cluster, name: str, plugins: dict[str, list[str]], *tasks: Manifest, **spec: Any) -> Manifest:
    """Create a Job of a gang; as it was stored."""
    replicas = sum(each["replicas"] for each in tasks)
    job = {"minAvailable": replicas, "schedulerName": "volcano", "plugins": plugins, "tasks": [*tasks], **spec}
    manifest = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": name}, "spec": job}
    return await c.create(manifest)


async def test_env_svc_and_ssh() -> None:
    async with cluster() as c:
        plugins = {"env": [], "svc": ["--publish-not-ready-addresses"], "ssh": ["-ssh-port", "2222"]}
        fixed = task("boss", 1, hostname="boss", subdomain="office")
        await submit(c, "j", plugins, fixed, task("my-worker", 2, hostNetwork=True))
        await c.job("j", "Running")
        for of in ("main", "init"):
            assert await environment(c, "j-my-worker-1", of) == {
                "VK_TASK_INDEX": "1",
                "VC_TASK_INDEX": "1",
                "VC_BOSS_HOSTS": "boss.office",
                "VC_BOSS_NUM": "1",
                "VC_MY_WORKER_HOSTS": "j-my-worker-0.j,j-my-worker-1.j",
                "VC_MY_WORKER_NUM": "2",
            }
            seen = await files(c, "j-my-worker-1", of)
            assert seen["/etc/volcano/boss.host"] == "boss.office"
            assert seen["/etc/volcano/my_worker.host"] == "j-my-worker-0.j\nj-my-worker-1.j"
            assert seen["/root/.ssh/id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----")
            assert seen["/root/.ssh/authorized_keys"] == seen["/root/.ssh/id_rsa.pub"]
            hosts = [("boss", "boss.office"), *((f"j-my-worker-{n}", f"j-my-worker-{n}.j") for n in range(2))]
            entries = "".join(f"Host {name}\n  HostName {at}\n  Port 2222\n" for name, at in hosts)
            assert seen["/root/.ssh/config"] == f"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n{entries}"
        boss, worker = [(await read(c, kinds.POD, name))["spec"] for name in ("j-boss-0", "j-my-worker-0")]
        assert (boss["hostname"], boss["subdomain"]) == ("boss", "office")
        assert (worker["hostname"], worker["subdomain"]) == ("j-my-worker-0", "j")
        assert worker["dnsPolicy"] == "ClusterFirstWithHostNet"
        modes = [each["secret"]["defaultMode"] for each in worker["volumes"] if "secret" in each]
        assert modes == [0o600]
        selector = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "default"}
        service = (await read(c, kinds.SERVICE, "j"))["spec"]
        assert (service["clusterIP"], service["selector"], service["publishNotReadyAddresses"]) == (
            "None",
            selector,
            True,
        )
        assert "ports" not in service
        policy = (await read(c, kinds.NETWORK_POLICY, "j"))["spec"]
        assert policy["podSelector"] == policy["ingress"][0]["from"][0]["podSelector"] == {"matchLabels": selector}
        job = await c.job("j", "Running")
        assert {f"plugin-{name}": name for name in plugins}.items() <= job.status.controlled_resources.items()
        for kind, name in (
            (kinds.SERVICE, "j"),
            (kinds.NETWORK_POLICY, "j"),
            (kinds.CONFIG_MAP, "j-svc"),
            (kinds.SECRET, "j-ssh"),
        ):
            (owner,) = (await read(c, kind, name))["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", job.metadata.uid, True)


async def test_pytorch_before_hcclrank_and_tensorflow() -> None:
    async with cluster() as c:
        torch = await submit(c, "t", {"hcclrank": [], "pytorch": []}, task("master", 1), task("worker", 2))
        assert torch["spec"]["plugins"] == {"hcclrank": [], "pytorch": [], "svc": []}
        tensor = await submit(c, "f", {"tensorflow": ["--port=9"]}, task("ps", 1), task("worker", 2))
        assert tensor["spec"]["plugins"] == {"tensorflow": ["--port=9"], "svc": []}
        await c.job("t", "Running")
        await c.job("f", "Running")
        for pod, rank in (("t-master-0", "0"), ("t-worker-0", "1"), ("t-worker-1", "2")):
            seen = await environment(c, pod)
            wanted = {"MASTER_ADDR": "t-master-0.t", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": rank}
            assert wanted.items() <= seen.items()
            assert (await read(c, kinds.POD, pod))["metadata"]["annotations"]["hccl/rankIndex"] == rank
        cluster_spec = {"ps": ["f-ps-0.f:9"], "worker": ["f-worker-0.f:9", "f-worker-1.f:9"]}
        for role, index in (("ps", 0), ("worker", 1)):
            config = json.loads((await environment(c, f"f-{role}-{index}"))["TF_CONFIG"])
            assert config == {"cluster": cluster_spec, "task": {"type": role, "index": index}}
        assert "TF_CONFIG" not in await environment(c, "f-ps-0", "init")


async def test_mpi_and_ray() -> None:
    async with cluster() as c:
        mpi = await submit(c, "m", {"mpi": []}, task("master", 1), task("worker", 2))
        assert mpi["spec"]["plugins"] == {"mpi": [], "ssh": [], "svc": []}
        head, hand = container("head", command=["mine"]), container("worker")
        await submit(c, "r", {"ray": []}, task("head", 1, head, container()), task("worker", 1, hand))
        await c.job("m", "Running")
        await c.job("r", "Running")
        for of in ("main", "init"):
            assert (await environment(c, "m-master-0", of))["MPI_HOST"] == "m-worker-0.m,m-worker-1.m"
            assert "MPI_HOST" not in await environment(c, "m-worker-0", of)
        spec = (await read(c, kinds.POD, "m-worker-0"))["spec"]
        for each in (*spec["containers"], *spec["initContainers"]):
            assert [(port["name"], port["containerPort"]) for port in each["ports"]] == [("mpijob-port", 22)]
        assert "/root/.ssh/id_rsa" in await files(c, "m-master-0")
        ray, other = (await read(c, kinds.POD, "r-head-0"))["spec"]["containers"]
        assert ray["command"][2].startswith("ray start --head --block --dashboard-host=0.0.0.0 --port=6379 ")
        assert [port["name"] for port in ray["ports"]] == ["gcs", "dashboard", "client-server"]
        assert (other["command"], "ports" in other) == (["run"], False)
        worker = (await read(c, kinds.POD, "r-worker-0"))["spec"]["containers"][0]
        assert worker["command"] == ["sh", "-c", "ray start --block --address=r-head-0.r:6379"]
        service = (await read(c, kinds.SERVICE, "r-head-svc"))["spec"]
        assert service["selector"]["volcano.sh/task-spec"] == "head"
        assert service["clusterIP"] not in ("", "None")
        assert {port["name"]: (port["port"], port["targetPort"]) for port in service["ports"]} == {
            "gcs": (6379, "gcs"),
            "dashboard": (8265, "dashboard"),
            "client-server": (10001, "client-server"),
        }


async def test_objects_of_plugins_survive_restarts_and_end_with_the_job() -> None:
    failing = {"sim.volcanoio.dev/run-duration": "1s", "sim.volcanoio.dev/fail-attempts": "1"}
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    plugins: dict[str, list[str]] = {"svc": [], "ssh": []}
    async with cluster() as c:
        tasks = [task("a", 2), task("f", 1, annotations=failing, restartPolicy="Never")]
        await submit(c, "j", plugins, *tasks, policies=policies, minAvailable=2)
        found = await c.until(kinds.CONFIG_MAP, ConfigMap, lambda all_: "j-svc" in all_, "the host files")
        secrets = await c.until(kinds.SECRET, Secret, lambda all_: "j-ssh" in all_, "the keys")
        await c.until(
            kinds.JOB,
            Job,
            lambda all_: (all_["j"].status.retry_count, all_["j"].status.succeeded) == (1, 1),
            "a restart",
        )
        tasks[0] = {**task("a", 3), "minAvailable": 3}
        await c.client.patch(kinds.JOB, "j", {"spec": {"tasks": tasks}}, namespace="default")
        await c.until(
            kinds.JOB,
            Job,
            lambda all_: (all_["j"].status.running, all_["j"].status.succeeded) == (3, 1),
            "three running",
        )
        files_now = await read(c, kinds.CONFIG_MAP, "j-svc")
        assert files_now["metadata"]["uid"] == found["j-svc"].metadata.uid
        assert files_now["data"]["VC_A_HOSTS"] == "j-a-0.j,j-a-1.j,j-a-2.j"
        secret = await read(c, kinds.SECRET, "j-ssh")
        assert secret["metadata"]["uid"] == secrets["j-ssh"].metadata.uid
        assert secret["data"]["id_rsa"] == secrets["j-ssh"].data["id_rsa"]
        assert base64.b64decode(secret["data"]["config"]).decode().count("Host ") == 4
        job = await c.job("j", "Running")
        target = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "j", "uid": job.metadata.uid}
        command = {"metadata": {"name": "end"}, "action": "AbortJob", "target": target}
        await c.create({"apiVersion": kinds.COMMAND.api_version, "kind": "Command", **command})
        await c.job("j", "Aborted")
        await c.until(kinds.CONFIG_MAP, ConfigMap, lambda all_: "j-svc" not in all_, "no host files")
        await c.until(kinds.SECRET, Secret, lambda all_: "j-ssh" not in all_, "no keys")


async def _status(c: Cluster, **counts: int) -> None:
    """Wait until job `j` has these counts."""

    def holds(jobs: dict[str, Job]) -> bool:
        return all(getattr(jobs["j"].status, name) == count for name, count in counts.items())

    await c.until(kinds.JOB, Job, holds, f"j with {counts}")


@pytest.mark.parametrize("replicas", [10_000, 50_000])
async def test_objects_of_a_huge_job_are_small_and_name_everybody(replicas: int) -> None:
    """It waits for room in its queue, so that no pod is made."""
    async with cluster() as c:
        queue = {"metadata": {"name": "full"}, "spec": {"weight": 1, "capability": {"cpu": "1"}}}
        await c.create({"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", **queue})
        worker = task("worker", replicas, container(resources={"requests": {"cpu": "1"}}))
        await submit(c, "a-huge-job", {"env": [], "svc": [], "ssh": []}, worker, queue="full")
        made = await c.until(
            kinds.CONFIG_MAP, ConfigMap, lambda all_: len(_listed(all_)) == replicas, "a list of everybody"
        )
        secrets = await c.until(kinds.SECRET, Secret, lambda all_: "a-huge-job-ssh" in all_, "the keys")
        assert len(set(_listed(made))) == replicas
        assert made["a-huge-job-svc"].data["VC_WORKER_HOSTS"] == f"a-huge-job-worker-[0-{replicas - 1}].a-huge-job"
        config = base64.b64decode(secrets["a-huge-job-ssh"].data["config"]).decode()
        assert "Host a-huge-job-worker-* !*.*\n  HostName %h.a-huge-job\n" in config
        objects = [await read(c, kinds.CONFIG_MAP, name) for name in made if name.startswith("a-huge-job-svc")]
        objects += [await read(c, kinds.SECRET, "a-huge-job-ssh"), await read(c, kinds.JOB, "a-huge-job")]
        assert max(len(msgspec.json.encode(each)) for each in objects) < LIMIT
        assert await c.pods("a-huge-job") == []


def _listed(config_maps: dict[str, ConfigMap]) -> list[str]:
    """The hosts in the parts of a list."""
    parts = (one.data for name, one in config_maps.items() if name.startswith("a-huge-job-svc-"))
    return [line for part in parts for text in part.values() for line in text.split("\n")]


async def test_invalid_plugin_settings_are_refused() -> None:
    refused = {
        "mpi": "spec.plugins.mpi: The specified mpi master task was not found: master; name a task so, or ",
        "ray": "spec.plugins.ray: the specified ray head task was not found: head; name a task so, or give ",
        "pytroch": 'spec.plugins.pytroch: unable to find job plugin: pytroch; did you mean "pytorch"?',
    }
    async with cluster() as c:
        for plugin, text in refused.items():
            with pytest.raises(ApiError) as caught:
                await submit(c, "j", {plugin: []}, task("other", 1))
            assert text in str(caught.value)
        await submit(c, "f", {"tensorflow": []}, task("worker", 2))
        patch = {"spec": {"tasks": [{**task("worker", 8000), "minAvailable": 2}]}}
        with pytest.raises(ApiError, match="TF_CONFIG of task worker is "):
            await c.client.patch(kinds.JOB, "f", patch, namespace="default")
