"""Frameworks whose job is a Volcano Job: what each of their pods finds, as a gang, to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import run_aside
from tests.scenario.cluster.containers import environment, files, read, run_command
from tests.scenario.cluster.harness import Cluster
from tests.scenario.integrations.support import (
    completed,
    cpus,
    create,
    create_all,
    example,
    group,
    is_unschedulable,
    manifest,
    manifests,
    starts_as_a_whole,
    unhurried,
)
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroup

CALL = 'echo "${0##*/}" "$@"'
"""A program that prints how it is called."""


async def gang(c: Cluster, minimum: int, *parts: str, taken: int = 1) -> PodGroup:
    """Submit a Job to a cluster with just enough room for its gang; its PodGroup once that runs."""
    name = manifest(*parts)["metadata"]["name"]
    found = await starts_as_a_whole(c, lambda: create_all(c, *parts), f"{name}-", minimum, taken)
    job = await read(c, kinds.JOB, name)
    assert found.metadata.name == f"{name}-{job['metadata']['uid']}"
    assert (found.spec.min_member, found.spec.queue) == (minimum, "default")
    return found


async def test_tensorflow_gets_the_hosts_of_its_roles_as_flags(tmp_path: Path) -> None:
    async with unhurried(**cpus(3)) as c:
        found = await gang(c, 3, "tensorflow", "parameter-server.yaml")
        assert found.spec.min_resources
        assert found.spec.min_resources["cpu"] == "3"
        job = "tensorflow-benchmark"
        said = await run_command(c, f"{job}-worker-1", tmp_path, of="tensorflow", stubs={"python": CALL})
        assert said.split() == [
            "python", "benchmark.py", "--job_name=worker", "--task_index=1",
            f"--ps_hosts={job}-ps-0.{job}:2222",
            f"--worker_hosts={job}-worker-0.{job}:2222,{job}-worker-1.{job}:2222",
        ]  # fmt: skip
        done = await completed(c, job)
        assert done.status.task_status_count["worker"].phase == {"Succeeded": 2}


async def test_tensorflow_makes_its_configuration_of_the_host_files(tmp_path: Path) -> None:
    job = "tensorflow-dist-mnist"
    hosts = {"ps": [f"{job}-ps-0.{job}:2222"], "worker": [f"{job}-worker-{n}.{job}:2222" for n in range(2)]}
    async with unhurried() as c:
        await example(c, "02-tensorflow-dist-mnist.yaml")
        await c.job(job, "Running")
        for role, index in (("ps", 0), ("worker", 0), ("worker", 1)):
            pod, stubs = f"{role}-{index}", {"python": 'printf %s "$TF_CONFIG"'}
            said = await run_command(c, f"{job}-{pod}", tmp_path / pod, of="tensorflow", stubs=stubs)
            task = {"type": role, "index": index}
            assert json.loads(said) == {"cluster": hosts, "task": task, "environment": "cloud"}


async def test_the_tensorflow_plugin_knows_four_roles_and_the_evaluator_waits_for_room() -> None:
    job = "tensorflow-roles"
    async with unhurried(**cpus(4)) as c:
        await gang(c, 4, "tensorflow", "all-roles.yaml")
        roles = {"chief": 1, "ps": 1, "worker": 2, "evaluator": 1}
        hosts = {role: [f"{job}-{role}-{n}.{job}:2222" for n in range(count)] for role, count in roles.items()}
        for role, count in roles.items():
            for index in range(count):
                pod = f"{job}-{role}-{index}"
                config = json.loads((await environment(c, pod, "tensorflow"))["TF_CONFIG"])
                assert config == {"cluster": hosts, "task": {"type": role, "index": index}}
        placed = [pod.metadata.name for pod in await c.pods(job) if pod.spec.node_name]
        assert f"{job}-evaluator-0" not in placed
        await completed(c, job)


async def test_an_optional_role_of_the_same_priority_takes_the_room_of_a_needed_one() -> None:
    """Recorded, as in Volcano: pods are placed by priority and name, not those first that the minimum needs."""
    job = manifest("tensorflow", "all-roles.yaml")
    del job["spec"]["tasks"][3]["template"]["spec"]["priorityClassName"]
    async with unhurried(**cpus(4)) as c:
        await create(c, job)
        waiting = await group(c, "tensorflow-roles-", is_unschedulable, "waits, though its gang of four would fit")
        assert "1 Unschedulable, 4 Schedulable" in waiting.status.conditions[-1].message
        assert not [pod for pod in await c.pods("tensorflow-roles-") if pod.spec.node_name]


async def test_the_tensorflow_plugin_leaves_a_job_of_one_pod_alone() -> None:
    alone = manifest("tensorflow", "all-roles.yaml")
    alone["spec"] |= {"tasks": alone["spec"]["tasks"][:1], "minAvailable": 1}
    async with unhurried() as c:
        await create(c, alone)
        await c.job("tensorflow-roles", "Running")
        assert "TF_CONFIG" not in await environment(c, "tensorflow-roles-chief-0", "tensorflow")


async def test_torchrun_finds_its_master_and_the_rank_of_its_node(tmp_path: Path) -> None:
    async with unhurried(**cpus(6)) as c:
        await gang(c, 3, "pytorch", "torchrun.yaml")
        spec = (await read(c, kinds.JOB, "torchrun"))["spec"]
        assert spec["plugins"]["svc"] == []
        for pod, rank in (("torchrun-master-0", 0), ("torchrun-worker-0", 1), ("torchrun-worker-1", 2)):
            said = await run_command(c, pod, tmp_path / pod, of="pytorch", stubs={"torchrun": CALL})
            assert said.split() == [
                "torchrun", "--nnodes=3", f"--node-rank={rank}", "--nproc-per-node=1",
                "--master-addr=torchrun-master-0.torchrun", "--master-port=23456", "train.py",
            ]  # fmt: skip
            seen = (await read(c, kinds.POD, pod))["spec"]
            assert [(port["name"], port["containerPort"]) for port in seen["containers"][0]["ports"]] == [
                ("pytorchjob-port", 23456)
            ]
            assert bool(seen.get("initContainers")) == (rank > 0), "workers wait for the master"
        await completed(c, "torchrun")


async def test_pytorch_gives_every_pod_its_rank() -> None:
    async with unhurried() as c:
        await example(c, "09-pytorch.yaml")
        await c.job("pytorch", "Running")
        for pod, rank in (("master-0", "0"), ("worker-0", "1"), ("worker-1", "2")):
            seen = await environment(c, f"pytorch-{pod}")
            wanted = {"MASTER_ADDR": "pytorch-master-0.pytorch", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
            assert {**wanted, "RANK": rank}.items() <= seen.items()
        await completed(c, "pytorch")


async def test_mpi_reads_its_workers_from_the_host_file(tmp_path: Path) -> None:
    workers = "mpi-hello-mpiworker-0.mpi-hello,mpi-hello-mpiworker-1.mpi-hello"
    async with unhurried(**cpus(3)) as c:
        await gang(c, 3, "mpi", "host-file.yaml")
        said = await run_command(c, "mpi-hello-mpimaster-0", tmp_path, of="mpi", stubs={"mpiexec": CALL})
        assert said.split() == [
            "mpiexec", "--allow-run-as-root", "--host", workers, "-np", "2", "mpi_hello_world",
        ]  # fmt: skip
        keys = [await files(c, f"mpi-hello-{pod}", "mpi") for pod in ("mpimaster-0", "mpiworker-0", "mpiworker-1")]
        assert len({each["/root/.ssh/id_rsa"] for each in keys}) == 1
        volumes = (await read(c, kinds.POD, "mpi-hello-mpiworker-0"))["spec"]["volumes"]
        assert [each["secret"]["defaultMode"] for each in volumes if "secret" in each] == [0o600]
        done = await completed(c, "mpi-hello")
        assert done.status.task_status_count["mpimaster"].phase == {"Succeeded": 1}


async def test_the_mpi_master_comes_when_its_workers_run(tmp_path: Path) -> None:
    async with unhurried(**cpus(3)) as c:
        await gang(c, 2, "mpi", "workers-first.yaml", taken=2)
        await c.until(
            kinds.POD, kinds.POD.type, lambda all_: "mpi-in-order-mpimaster-0" in all_, "the master is created"
        )
        workers = {pod.metadata.name: pod.status.phase for pod in await c.pods("mpi-in-order-mpiworker")}
        assert set(workers.values()) == {"Running"}
        said = await run_command(c, "mpi-in-order-mpimaster-0", tmp_path, of="mpi", stubs={"mpiexec": CALL})
        assert "--host mpi-in-order-mpiworker-0.mpi-in-order,mpi-in-order-mpiworker-1.mpi-in-order " in said
        await completed(c, "mpi-in-order")


async def test_the_mpi_plugin_lists_the_workers_and_wants_a_master() -> None:
    async with unhurried() as c:
        await example(c, "11-mpi.yaml")
        await c.job("mpi", "Running")
        assert (await environment(c, "mpi-master-0"))["MPI_HOST"] == "mpi-worker-0.mpi,mpi-worker-1.mpi"
        job = manifest("mpi", "workers-first.yaml")
        job["spec"]["tasks"][0]["name"] = "launcher"
        with pytest.raises(ApiError, match="mpi master task was not found: mpimaster"):
            await create(c, job)


async def test_horovod_starts_its_workers_and_is_listed_by_its_type(tmp_path: Path) -> None:
    job = "horovod-mnist"
    hosts = ",".join(f"{job}-worker-{n}.{job}:1" for n in range(3))
    async with unhurried(**cpus(4)) as c:
        await gang(c, 4, "horovod", "horovod.yaml")
        said = await run_command(c, f"{job}-master-0", tmp_path, of="horovod", stubs={"horovodrun": CALL})
        assert said.split()[:5] == ["horovodrun", "-np", "3", "-H", hosts]
        listed = await run_aside("job", "list", "-k", str(c.local.kubeconfig), program="vcctl")
        assert listed.out.splitlines()[1].split()[3] == "Horovod"
        await completed(c, job)


async def test_mindspore_gets_gpus_and_a_host_file(tmp_path: Path) -> None:
    job, nodes = "mindspore-gpu", {"nodes": 3, "node_resources": "cpu=1,memory=32Gi,pods=10,nvidia.com/gpu=1"}
    async with unhurried(**nodes) as c:
        await gang(c, 3, "mindspore", "gpu.yaml")
        said = await run_command(c, f"{job}-mpimaster-0", tmp_path, of="mindspore", stubs={"mpirun": 'cat "$5"'})
        assert said.splitlines() == [f"{job}-mpiworker-{n}.{job}" for n in range(2)]
        await completed(c, job)


async def test_mindspore_on_ascend_gets_the_ranks_of_its_pods() -> None:
    job, nodes = "mindspore-ascend", {"nodes": 2, "node_resources": "cpu=8,memory=64Gi,pods=10,huawei.com/Ascend910=8"}
    async with unhurried(**nodes) as c:
        await gang(c, 2, "mindspore", "ascend.yaml")
        for pod, rank in (("master-0", "0"), ("worker-0", "1")):
            metadata = (await read(c, kinds.POD, f"{job}-{pod}"))["metadata"]
            assert metadata["annotations"]["hccl/rankIndex"] == rank
            assert metadata["labels"]["ring-controller.atlas"] == "ascend-910"
        await completed(c, job)


async def test_mindspore_on_cpus_starts_with_the_pods_that_fit() -> None:
    async with unhurried(**cpus(3)) as c:
        await example(c, "03-mindspore.yaml")
        found = await group(c, "mindspore-cpu-", lambda one: one.status.running == 3, "runs with three")
        assert found.spec.min_member == 1
        done = await completed(c, "mindspore-cpu")
        assert done.status.succeeded == 8


async def test_paddlepaddle_finds_its_servers_by_label_and_its_pods_know_who_they_are() -> None:
    async with unhurried(**cpus(4)) as c:
        found = await gang(c, 4, "paddlepaddle", "ctr.yaml")
        assert found.spec.min_resources
        assert found.spec.min_resources["ephemeral-storage"] == "4Gi"
        servers = await c.client.list(kinds.POD, "default", label_selector="paddle-job-pserver=ctr")
        assert sorted(pod.metadata.name for pod in servers) == ["ctr-pserver-0", "ctr-pserver-1"]
        spec = (await read(c, kinds.POD, "ctr-trainer-1"))["spec"]
        assert spec["serviceAccountName"] == "paddle"
        fields = {
            each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
            for each in spec["containers"][0]["env"]
            if "fieldRef" in each.get("valueFrom", {})
        }
        assert fields == {"NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
        await completed(c, "ctr")


async def test_a_failed_paddlepaddle_pod_restarts_the_whole_job() -> None:
    job = manifest("paddlepaddle", "ctr.yaml")
    trainers = job["spec"]["tasks"][1]["template"]["metadata"]["annotations"]
    trainers["sim.volcanoio.dev/fail-attempts"] = "1"
    async with unhurried() as c:
        for each in (*manifests("paddlepaddle", "ctr.yaml")[:-1], job):
            await create(c, each)
        done = await completed(c, "ctr")
        assert done.status.retry_count == 1
        assert done.status.version > 0


async def test_mxnet_finds_its_scheduler_by_name() -> None:
    async with unhurried(**cpus(5)) as c:
        await gang(c, 5, "mxnet", "train.yaml")
        service = (await read(c, kinds.SERVICE, "mxnet"))["spec"]
        scheduler = (await read(c, kinds.POD, "mxnet-scheduler-0"))["spec"]
        assert service["clusterIP"] == "None"
        for pod in ("mxnet-scheduler-0", "mxnet-server-1", "mxnet-worker-0"):
            named = (await environment(c, pod, "mxnet"))["DMLC_PS_ROOT_URI"]
            assert named == f"{scheduler['hostname']}.{scheduler['subdomain']}"
        await completed(c, "mxnet")


async def test_ray_starts_its_head_and_workers() -> None:
    async with unhurried() as c:
        await example(c, "12-ray.yaml")
        running = await c.job("ray", "Running")
        assert running.spec.min_available == 3
        head, worker = [
            (await read(c, kinds.POD, f"ray-{pod}"))["spec"]["containers"][0] for pod in ("head-0", "worker-1")
        ]
        assert head["command"][2].startswith("ray start --head --block ")
        assert worker["command"] == ["sh", "-c", "ray start --block --address=ray-head-0.ray:6379"]
        ports = {port["name"]: port["port"] for port in (await read(c, kinds.SERVICE, "ray-head-svc"))["spec"]["ports"]}
        assert ports == {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
        await completed(c, "ray")
