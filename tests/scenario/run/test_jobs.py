"""Volcano jobs whose pods are processes: what the svc, env and ssh plugins give them is enough to work together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.support import Namespace, Obj
from tests.scenario.run.up_process import UpProcess, log, until
from volcanoio.model.packaged import config_path

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
JOBS = "jobs.v1alpha1.batch.volcano.sh"

STUB = """#!/bin/sh
# Stands for python: records TF_CONFIG and the addresses of all hosts in it, as soon as they have any.
for name in $(printf '%s' "$TF_CONFIG" | grep -o '"[^"]*:2222"' | tr -d '"' | cut -d: -f1); do
    until address=$(getent hosts "$name"); do sleep 0.05; done
    printf '%s\\n' "$address" >> "RECORDS/$HOSTNAME.addresses"
done
printf '%s' "$TF_CONFIG" > "RECORDS/$HOSTNAME.part" && mv "RECORDS/$HOSTNAME.part" "RECORDS/$HOSTNAME.json"
echo "$1"
case "$HOSTNAME" in
    *-ps-*) trap 'exit 143' TERM; sleep 1000 & wait;;  # a first process hears no signal that it does not ask for
    *) until [ "$(ls RECORDS | grep -c json)" = 3 ]; do sleep 0.05; done;;
esac
"""

IDIOM = r"""
PS_HOST=`cat /etc/volcano/ps.host | sed 's/$/&:2222/g' | sed 's/^/"/;s/$/"/' | tr "\n" ","`
WORKER_HOST=`cat /etc/volcano/worker.host | sed 's/$/&:2222/g' | sed 's/^/"/;s/$/"/' | tr "\n" ","`
TASK={\"type\":\"TASK\",\"index\":${VK_TASK_INDEX}}
CLUSTER={\"ps\":[${PS_HOST}],\"worker\":[${WORKER_HOST}]}
export TF_CONFIG={\"cluster\":${CLUSTER},\"task\":${TASK},\"environment\":\"cloud\"}
python /var/tf_dist_mnist/dist_mnist.py
"""
"""How people write it for Volcano: back quotes and escapes, no quotes around the whole."""


@pytest.mark.parametrize("idiom", ["of our example", "of Volcano's users"])
def test_tensorflow_finds_its_cluster(running: UpProcess, stubs: Path, tmp_path: Path, idiom: str) -> None:
    namespace = running.namespace()
    stub = stubs / "python"
    stub.write_text(STUB.replace("RECORDS", str(tmp_path)))
    stub.chmod(0o755)
    job: Obj = yaml.safe_load(config_path("examples", "02-tensorflow-dist-mnist.yaml").read_text())
    for task in job["spec"]["tasks"]:
        spec = task["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 1  # a shell that waits for its child hears no SIGTERM
        if idiom != "of our example":
            spec["containers"][0]["command"][2] = IDIOM.replace('\\"TASK\\"', f'\\"{task["name"]}\\"')
    _complete(namespace, job)
    records = {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}
    name = job["metadata"]["name"]
    cluster = {
        "ps": [f"{name}-ps-0.{name}:2222"],
        "worker": [f"{name}-worker-{index}.{name}:2222" for index in range(2)],
    }
    assert records == {
        f"{name}-{task}-{index}": {"cluster": cluster, "task": {"type": task, "index": index}, "environment": "cloud"}
        for task, index in (("ps", 0), ("worker", 0), ("worker", 1))
    }
    for host in records:
        lines = (tmp_path / f"{host}.addresses").read_text().splitlines()
        assert [line.split()[1:2] != [] for line in lines] == [True] * 3
        assert len({line.split()[0] for line in lines}) == 3


@pytest.mark.skipif(
    SSHD is None, reason="NO SSHD HERE: logging in from pod to pod is NOT tested (apt install openssh-server)"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT ROOT: sshd cannot drop privileges, logging in is NOT tested")
def test_mpi_logs_in_from_master_to_workers(running: UpProcess) -> None:
    namespace = running.namespace()
    name, port = "mpi", 2222
    serve = (
        "chmod 755 /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /run/sshd/key; exec "
        f"{SSHD} -D -e -h /run/sshd/key -p {port} -o ListenAddress=$(hostname -i) -o PidFile=none -o UsePAM=no"
    )
    master = (
        "for host in $(cat /etc/volcano/worker.host | tr '\\n' ' '); do "
        "until said=$(ssh -o LogLevel=ERROR ${host%%.*} 'hostname; cat /etc/volcano/master.host' 2>/dev/null); "
        "do sleep 0.1; done; echo $said; done"
    )

    def task(kind: str, replicas: int, script: str, **more: Any) -> Obj:
        container = {
            "name": kind, "image": "none", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "run", "mountPath": "/run/sshd"}],
        }  # fmt: skip
        spec = {"restartPolicy": "OnFailure", "containers": [container], "volumes": [{"name": "run", "emptyDir": {}}]}
        return {"name": kind, "replicas": replicas, "template": {"spec": spec}, **more}

    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": 3,
            "schedulerName": "volcano",
            "plugins": {"ssh": [f"--ssh-port={port}"], "svc": [], "env": []},
            "tasks": [
                task("master", 1, master, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
                task("worker", 2, serve),
            ],
        },
    }
    _complete(namespace, job)
    said = log(namespace.cluster, namespace.path("pods", f"{name}-master-0"))
    assert said.split("\n") == [f"{name}-worker-{index} {name}-master-0.{name}" for index in range(2)] + [""]


def test_there_is_a_program_of_that_name_on_this_machine() -> None:
    """What the tests above rely on."""
    for program in ("flock", "getent", "setsid", "tar"):
        assert subprocess.run(["which", program], check=False, capture_output=True).returncode == 0, program


def _complete(namespace: Namespace, job: Obj) -> None:
    """Create a job and wait until it is completed."""
    namespace.cluster.create(namespace.path(JOBS), job).ok()
    until(
        namespace.cluster,
        namespace.path(JOBS, job["metadata"]["name"]),
        lambda one: one.get("status", {}).get("state", {}).get("phase") == "Completed",
    )
