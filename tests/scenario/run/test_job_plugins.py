"""Pods of distributed frameworks as processes connect over TCP with the settings of job plugins."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contract.support import Namespace, Obj
from tests.scenario.run.job_runs import JOBS, completed, said
from tests.scenario.run.up_process import UpProcess, shell, until
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")

RAY = """#!/usr/bin/env python3
'''Stands for ray: a head listens at its own address, workers come to the one they are given and say who they are.'''
import socket, sys, time
options = dict(word.lstrip("-").split("=") for word in sys.argv[2:] if "=" in word)
if "--head" in sys.argv:
    heard = set()
    with socket.create_server((socket.gethostbyname(socket.gethostname()), int(options["port"]))) as server:
        while len(heard) < 3:
            guest, _ = server.accept()
            with guest:
                heard.add(guest.makefile().readline().strip())
    print("joined by", *sorted(heard))
else:
    host, _, port = options["address"].partition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), 5) as line:
                line.sendall(socket.gethostname().encode() + b"\\n")
                break
        except OSError:
            time.sleep(0.1)
"""


def example(file: str) -> Obj:
    """The Job of an example, with pods that end when they receive the signal."""
    (job,) = read_manifests(config_path("examples", file))
    for task in job["spec"]["tasks"]:
        task["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    return job


def test_every_pod_has_the_hosts_files_and_keys(namespace: Namespace) -> None:
    completed(namespace, example("08-hosts.yaml"))
    workers = "workers 2: hosts-worker-0.hosts,hosts-worker-1.hosts"
    for pod, index in (("hosts-master-0", 0), ("hosts-worker-0", 0), ("hosts-worker-1", 1)):
        assert said(namespace, pod) == [
            f"index {index} of {pod}",
            workers,
            "master hosts-master-0.hosts",
            "keys authorized_keys config id_rsa id_rsa.pub ",
        ]


def test_pytorch_workers_meet_at_the_master(namespace: Namespace) -> None:
    completed(namespace, example("09-pytorch.yaml"))
    assert said(namespace, "pytorch-master-0") == ["met ranks [0, 1, 2]"]
    assert [said(namespace, f"pytorch-worker-{index}") for index in range(2)] == [
        [f"rank {index + 1} met pytorch-master-0.pytorch"] for index in range(2)
    ]


def test_workers_wait_for_the_master_before_they_start(namespace: Namespace) -> None:
    """The master listens late; a worker that tries once finds it, as it starts only when the master answers."""
    job = example("09-pytorch.yaml")
    job["spec"]["plugins"]["pytorch"] = ["--wait-master-enabled", "--wait-master-timeout=60"]
    master, worker = (task["template"]["spec"]["containers"][0] for task in job["spec"]["tasks"])
    lines = master["command"][2].replace("int(guest.makefile().readline())", "int(guest.makefile().readline() or 0)")
    master["command"][2] = f"import time; time.sleep(1)\n{lines}"  # and has no output on a dry run
    worker["command"] = [
        "bash", "-c", 'exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo "$RANK" >&3 && echo found'
    ]  # fmt: skip
    completed(namespace, job)
    assert said(namespace, "pytorch-master-0") == ["met ranks [0, 1, 2]"]
    for index in range(2):
        assert said(namespace, f"pytorch-worker-{index}") == ["found"]
        pod = namespace.cluster.get(namespace.path("pods", f"pytorch-worker-{index}")).ok()
        (waited,) = pod["status"]["initContainerStatuses"]
        assert (waited["name"], waited["state"]["terminated"]["exitCode"]) == ("wait-for-master", 0)


def test_workers_meet_a_master_that_was_restarted_elsewhere(namespace: Namespace, tmp_path: Path) -> None:
    """The first master fails; the workers, already on their way, find the second, which has another address."""
    job = example("09-pytorch.yaml")
    master, _ = job["spec"]["tasks"]
    master["policies"] = [{"event": "PodFailed", "action": "RestartPod"}]
    spec = master["template"]["spec"]
    spec["restartPolicy"] = "Never"
    first = f"""
import os, socket, sys
flag = "{tmp_path}/tried"
if not os.path.exists(flag):
    open(flag, "w").write(socket.gethostbyname(socket.gethostname()))
    sys.exit(1)
print("before at", open(flag).read(), "now at", socket.gethostbyname(socket.gethostname()))
"""
    spec["containers"][0]["command"][2] = first + spec["containers"][0]["command"][2]
    completed(namespace, job)
    reported, met = said(namespace, "pytorch-master-0")
    before, now = reported.removeprefix("before at ").split(" now at ")
    assert before != now
    assert met == "met ranks [0, 1, 2]"


def test_two_jobs_with_the_same_ports_do_not_meet(namespace: Namespace) -> None:
    names = ("one", "two")
    for name in names:
        job = example("09-pytorch.yaml")
        job["metadata"]["name"] = name
        namespace.cluster.create(namespace.path(JOBS), job).ok()
    for name in names:
        path = namespace.path(JOBS, name)
        until(namespace.cluster, path, lambda one: one.get("status", {}).get("state", {}).get("phase") == "Completed")
        assert said(namespace, f"{name}-worker-1") == [f"rank 2 met {name}-master-0.{name}"]


def test_tensorflow_pods_connect_to_each_other(namespace: Namespace) -> None:
    completed(namespace, example("10-tensorflow.yaml"))
    everybody = ["chief-0", "ps-0", "worker-0", "worker-1"]
    for pod in everybody:
        others = " ".join(sorted(set(everybody) - {pod}))
        assert said(namespace, f"tensorflow-{pod}") == [f"heard {others}"]


@pytest.mark.skipif(SSHD is None, reason="NO SSHD HERE: logging in is NOT tested (apt install openssh-server)")
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT ROOT: sshd cannot drop privileges, logging in is NOT tested")
def test_mpi_masters_log_in_to_the_hosts_of_mpi_host(namespace: Namespace) -> None:
    port = 2222
    job = example("11-mpi.yaml")
    job["spec"]["plugins"] = {"mpi": [f"--port={port}"], "ssh": [f"--ssh-port={port}"]}
    login = "ssh -o LogLevel=ERROR ${host%%.*} hostname 2>/dev/null"
    scripts = {
        "master": f"for host in $(echo $MPI_HOST | tr , ' '); do until {login}; do sleep 0.1; done; done",
        "worker": (
            "chmod 755 /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /run/sshd/key; exec "
            f"{SSHD} -D -e -h /run/sshd/key -p {port} -o ListenAddress=$(hostname -i) -o PidFile=none -o UsePAM=no"
        ),
    }
    for task in job["spec"]["tasks"]:
        spec = task["template"]["spec"]
        mount = {"name": "run", "mountPath": "/run/sshd"}
        spec["containers"] = [shell(scripts[task["name"]], volumeMounts=[mount])]
        spec["volumes"] = [{"name": "run", "emptyDir": {}}]
    completed(namespace, job)
    assert said(namespace, "mpi-master-0") == ["mpi-worker-0", "mpi-worker-1"]


def test_ray_workers_join_the_head_and_its_service_leads_there(namespace: Namespace, stubs: Path) -> None:
    stub = stubs / "ray"
    stub.write_text(RAY)
    stub.chmod(0o755)
    job = example("12-ray.yaml")
    join = "exec ray start --address=ray-head-svc:6379"
    client: Any = {"name": "client", "replicas": 1, "template": {"spec": {"containers": [shell(join)]}}}
    client["template"]["spec"]["restartPolicy"] = "OnFailure"
    job["spec"]["tasks"].append(client)
    completed(namespace, job)
    assert said(namespace, "ray-head-0") == ["joined by ray-client-0 ray-worker-0 ray-worker-1"]


def test_hccl_ranks_are_those_of_pytorch(namespace: Namespace) -> None:
    completed(namespace, example("13-hcclrank.yaml"))
    for pod, rank in (("master-0", 0), ("worker-0", 1), ("worker-1", 2)):
        assert said(namespace, f"hcclrank-{pod}") == [f"rank {rank}, hccl {rank}"]


def test_the_cluster_of_tensorflow_is_json_that_it_reads(namespace: Namespace) -> None:
    job = example("10-tensorflow.yaml")
    for task in job["spec"]["tasks"]:
        task["template"]["spec"]["containers"] = [shell('echo "has $TF_CONFIG"')]
    completed(namespace, job)
    addresses = {
        role: [f"tensorflow-{role}-{index}.tensorflow:2222" for index in range(count)]
        for role, count in (("ps", 1), ("worker", 2), ("chief", 1))
    }
    (line,) = said(namespace, "tensorflow-worker-1")
    config = json.loads(line.removeprefix("has "))
    assert config == {"cluster": addresses, "task": {"type": "worker", "index": 1}}


def test_a_job_that_a_plugin_cannot_work_with_is_refused(running: UpProcess, namespace: Namespace) -> None:
    for file, plugin, text in (
        ("11-mpi.yaml", "mpi", "spec.plugins.mpi: The specified mpi master task was not found: boss"),
        ("12-ray.yaml", "ray", "spec.plugins.ray: the specified ray head task was not found: boss"),
    ):
        job = example(file)
        job["spec"]["plugins"][plugin] = ["--master=boss" if plugin == "mpi" else "--head=boss"]
        answer = running.cluster.create(namespace.path(JOBS), job)
        assert text in answer.refused(403, "Forbidden")["message"]
