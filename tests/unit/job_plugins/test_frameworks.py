"""pytorch, tensorflow, mpi, ray and hcclrank: what their frameworks read in a pod."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from volcanoio_plugins.job.hcclrank import HcclrankPlugin
from volcanoio_plugins.job.mpi import MpiPlugin
from volcanoio_plugins.job.pytorch import PytorchPlugin
from volcanoio_plugins.job.ray import RayPlugin
from volcanoio_plugins.job.tensorflow import TensorflowPlugin

from volcanoio.framework.jobs import JobPlugin, PluginArgumentError
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job


def job(*tasks: tuple[str, int], **template: Any) -> Job:
    """Job `j` of tasks by name and replicas; `template` are fields of the first task's pod spec."""
    listed = [
        {"name": name, "replicas": replicas, "template": {"spec": template if number == 0 else {}}}
        for number, (name, replicas) in enumerate(tasks)
    ]
    return msgspec.convert({"metadata": {"name": "j", "namespace": "ns"}, "spec": {"tasks": listed}}, Job)


def pod(plugin: JobPlugin, one: Job, task: str, index: int = 0, **container: Any) -> Manifest:
    """A pod of a main container, named as its task, and an init container."""
    spec = {"containers": [{"name": task, **container}], "initContainers": [{"name": "init"}]}
    built = {"metadata": {"name": f"j-{task}-{index}", "annotations": {}}, "spec": spec}
    plugin.on_pod_create(built, one, next(each for each in one.spec.tasks if each.name == task), index)
    return built


def variables(built: Manifest, kind: str = "containers") -> dict[str, str]:
    return {each["name"]: each["value"] for each in built["spec"][kind][0].get("env") or ()}


TORCH = job(("master", 1), ("worker", 3), ("data", 2))


@pytest.mark.parametrize(("task", "index", "rank"), [("master", 0, "0"), ("worker", 2, "3"), ("data", 1, None)])
def test_pytorch_gives_the_masters_address_and_a_rank(task: str, index: int, rank: str | None) -> None:
    built = pod(PytorchPlugin([]), TORCH, task, index)
    expected = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "4"}
    assert variables(built) == expected | ({} if rank is None else {"RANK": rank})
    assert built["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert built["spec"]["initContainers"] == [{"name": "init"}]


def test_pytorch_takes_other_names_and_an_open_port() -> None:
    one = job(("boss", 1), ("hand", 1), hostname="chief", subdomain="dom")
    mine = [{"name": "mine", "containerPort": 1234}]
    built = pod(PytorchPlugin(["-master=boss", "--worker", "hand", "--port=1234"]), one, "hand", ports=mine)
    assert variables(built) == {"MASTER_ADDR": "chief.dom", "MASTER_PORT": "1234", "WORLD_SIZE": "2", "RANK": "1"}
    assert built["spec"]["containers"][0]["ports"] == mine


def test_pytorch_without_a_master_has_no_effect() -> None:
    built = pod(PytorchPlugin([]), job(("worker", 2)), "worker")
    assert built["spec"]["containers"] == [{"name": "worker"}]


def test_pytorch_workers_wait_for_the_master() -> None:
    plugin = PytorchPlugin(["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=mine"])
    built = pod(plugin, TORCH, "worker")
    first, waits = built["spec"]["initContainers"]
    assert first == {"name": "init"}
    assert (waits["name"], waits["image"], waits["command"][:2]) == ("wait-for-master", "mine", ["sh", "-c"])
    assert "j-master-0.j 23456" in waits["command"][2]
    assert "+ 60))" in waits["command"][2]
    assert len(pod(plugin, TORCH, "master")["spec"]["initContainers"]) == 1


def test_tensorflow_describes_the_cluster_and_the_pods_place() -> None:
    one = job(("ps", 1), ("worker", 2), ("chief", 1), ("tensorboard", 1), ("evaluator", 0))
    built = pod(TensorflowPlugin([]), one, "worker", 1)
    assert variables(built) == {
        "TF_CONFIG": '{"cluster":{"ps":["j-ps-0.j:2222"],"worker":["j-worker-0.j:2222","j-worker-1.j:2222"],'
        '"chief":["j-chief-0.j:2222"]},"task":{"type":"worker","index":1}}'
    }
    assert variables(built, "initContainers") == {}
    other = json.loads(variables(pod(TensorflowPlugin([]), one, "tensorboard"))["TF_CONFIG"])
    assert other["task"] == {"type": "tensorboard", "index": 0}


def test_tensorflow_takes_other_names_and_repeats_a_hostname() -> None:
    one = job(("params", 2), ("w", 1), hostname="fixed")
    config = variables(pod(TensorflowPlugin(["--ps=params", "--worker=w", "--port=9"]), one, "params", 1))["TF_CONFIG"]
    assert json.loads(config) == {
        "cluster": {"ps": ["fixed.j:9", "fixed.j:9"], "worker": ["j-w-0.j:9"]},
        "task": {"type": "ps", "index": 1},
    }


@pytest.mark.parametrize(("replicas", "given"), [(1, False), (2, True)])
def test_a_tensorflow_of_one_pod_needs_no_cluster(replicas: int, given: bool) -> None:
    assert ("TF_CONFIG" in variables(pod(TensorflowPlugin([]), job(("worker", replicas)), "worker"))) is given


@pytest.mark.parametrize(("replicas", "copies", "fine"), [(5000, 1, True), (9000, 1, False), (5000, 3, False)])
def test_a_tensorflow_that_could_not_be_started_is_refused(replicas: int, copies: int, fine: bool) -> None:
    one = job(("worker", replicas), containers=[{"name": f"c{number}"} for number in range(copies)])
    assert (TensorflowPlugin([]).problems(one) == []) is fine


def test_mpi_opens_the_port_and_gives_the_master_its_workers() -> None:
    one = job(("master", 1), ("worker", 2))
    built = pod(MpiPlugin(["--port=2222"]), one, "master")
    for kind in ("containers", "initContainers"):
        assert variables(built, kind) == {"MPI_HOST": "j-worker-0.j,j-worker-1.j"}
        assert built["spec"][kind][0]["ports"] == [{"name": "mpijob-port", "containerPort": 2222}]
    worker = pod(MpiPlugin(["--port=2222"]), one, "worker")
    for kind in ("containers", "initContainers"):
        assert variables(worker, kind) == {}
        assert worker["spec"][kind][0]["ports"] == [{"name": "mpijob-port", "containerPort": 2222}]


def test_mpi_names_a_fixed_host_once_and_needs_workers() -> None:
    fixed = job(("worker", 3), ("master", 1), hostname="w")
    assert variables(pod(MpiPlugin([]), fixed, "master")) == {"MPI_HOST": "w.j"}
    assert pod(MpiPlugin([]), job(("master", 1)), "master")["spec"]["containers"] == [{"name": "master"}]


def test_mpi_gives_a_range_when_the_list_is_too_long() -> None:
    one = job(("master", 1), ("worker", 10_000))
    assert variables(pod(MpiPlugin([]), one, "master")) == {"MPI_HOST": "j-worker-[0-9999].j"}


def test_frameworks_report_a_missing_task() -> None:
    one = job(("other", 1))
    assert MpiPlugin(["--master=m"]).problems(one) == (
        "The specified mpi master task was not found: m; name a task so, or give --master=TASK",
    )
    assert RayPlugin([]).problems(one) == (
        "the specified ray head task was not found: head; name a task so, or give --head=TASK",
    )
    assert MpiPlugin(["--master=other"]).problems(one) == RayPlugin(["--head=other"]).problems(one) == ()


def test_ray_starts_a_head_and_its_workers() -> None:
    one = job(("head", 1), ("worker", 2))
    head = pod(RayPlugin([]), one, "head", command=["bash"], args=["-x"])["spec"]["containers"][0]
    assert head["command"] == [
        "sh",
        "-c",
        (
            "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
            "--ray-client-server-port=10001"
        ),
    ]
    ports = {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
    assert {each["name"]: each["containerPort"] for each in head["ports"]} == ports
    worker = pod(RayPlugin([]), one, "worker")["spec"]["containers"][0]
    assert worker == {"name": "worker", "command": ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]}


def test_ray_touches_the_named_containers_only() -> None:
    one = job(("head", 1), ("worker", 1))
    plugin = RayPlugin(["--headContainer=ray", "--workerContainer=ray"])
    for task in ("head", "worker"):
        assert pod(plugin, one, task)["spec"]["containers"] == [{"name": task}]


def test_ray_has_a_service_of_the_heads_ports() -> None:
    (service,) = RayPlugin(["--head=h", "--port=1", "--dashboardPort=2", "--clientPort=3"]).owned_objects(job(("h", 1)))
    assert service.manifest["metadata"]["name"] == "j-head-svc"
    assert service.manifest["spec"] == {
        "type": "ClusterIP",
        "selector": {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns", "volcano.sh/task-spec": "h"},
        "ports": [
            {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
            for number, name in enumerate(("gcs", "dashboard", "client-server"), start=1)
        ],
    }


@pytest.mark.parametrize(
    ("task", "index", "env", "rank"),
    [
        ("master", 1, [], "1"),
        ("worker", 1, [], "3"),
        ("data", 1, [], None),
        ("worker", 1, [{"name": "RANK", "value": "7"}], "7"),
        ("data", 1, [{"name": "RANK", "value": "7"}], "7"),
        ("worker", 1, [{"name": "RANK", "value": ""}, {"name": "RANK", "value": "7"}], "3"),
        ("worker", 1, [{"name": "RANK", "valueFrom": {}}], "3"),
    ],
)
def test_hcclrank_ranks_a_pod(task: str, index: int, env: list[Manifest], rank: str | None) -> None:
    one = job(("master", 2), ("worker", 3), ("data", 2))
    annotations = pod(HcclrankPlugin([]), one, task, index, env=env)["metadata"]["annotations"]
    assert annotations == ({} if rank is None else {"hccl/rankIndex": rank})


def test_hcclrank_keeps_the_rank_of_a_template() -> None:
    one = job(("worker", 1))
    built: Manifest = {"metadata": {"annotations": {"hccl/rankIndex": "5"}}, "spec": {"containers": []}}
    HcclrankPlugin([]).on_pod_create(built, one, one.spec.tasks[0], 0)
    assert built["metadata"]["annotations"] == {"hccl/rankIndex": "5"}


@pytest.mark.parametrize(
    ("plugin", "arguments", "text"),
    [
        (PytorchPlugin, ["--port=0"], "pytorch: --port must be in 1..65535, not 0"),
        (PytorchPlugin, ["--wait-master-timeout=0"], "pytorch: --wait-master-timeout takes seconds"),
        (TensorflowPlugin, ["--port=70000"], "tensorflow: --port"),
        (MpiPlugin, ["--port=-1"], "mpi: --port"),
        (RayPlugin, ["--clientPort=0"], "ray: --clientPort"),
    ],
)
def test_bad_ports_are_named(plugin: Any, arguments: list[str], text: str) -> None:
    with pytest.raises(PluginArgumentError) as caught:
        plugin(arguments)
    assert text in str(caught.value)
