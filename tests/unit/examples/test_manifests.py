"""The manifests in config/examples: they parse, say how to run them, and their shell does what it claims."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.kinds import JOB, POD, named
from volcanoio.model.packaged import config_path

FILES = sorted(config_path("examples").rglob("*.yaml"))
FOREIGN = {"tenant", "integrations"}
"""Directories with namespaces, rights and policies, and with objects of other projects' operators."""


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_has_a_comment_and_known_objects(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "# Run: " in text
    for document in documents(path):
        kind = named(document["apiVersion"], document["kind"])
        assert kind is not None or FOREIGN & {path.parent.name, path.parent.parent.name}
        if kind is not None:
            msgspec.convert(document, kind.type)


def test_files_sort_into_an_order_that_can_be_applied() -> None:
    names = [path.name for path in FILES]
    assert names.index("00-priority-classes.yaml") < names.index("01-nginx.yaml")
    assert names.index("06-kuberay-queue.yaml") < names.index("06-kuberay-raycluster-1.yaml")


@pytest.mark.parametrize("ending", ["", "\n"], ids=["no trailing newline", "trailing newline"])
@pytest.mark.parametrize(("task", "index"), [("ps", 0), ("worker", 1)])
def test_tensorflow_shell_builds_valid_tf_config(tmp_path: Path, ending: str, task: str, index: int) -> None:
    hosts = {"ps": ["mnist-ps-0.mnist"], "worker": ["mnist-worker-0.mnist", "mnist-worker-1.mnist"]}
    for name, lines in hosts.items():
        (tmp_path / f"{name}.host").write_text("\n".join(lines) + ending, encoding="utf-8")
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\nprintf %s "$TF_CONFIG"\n', encoding="utf-8")
    stub.chmod(0o755)
    job = msgspec.convert(documents(config_path("examples", "02-tensorflow-dist-mnist.yaml"))[0], Job)
    template = next(t.template for t in job.spec.tasks if t.name == task)
    _, _, script = template["spec"]["containers"][0]["command"]
    shell = shutil.which("sh")
    assert shell is not None
    printed = subprocess.run(
        [shell, "-c", script.replace("/etc/volcano", str(tmp_path))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "VK_TASK_INDEX": str(index)},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert json.loads(printed) == {
        "cluster": {name: [f"{host}:2222" for host in lines] for name, lines in hosts.items()},
        "task": {"type": task, "index": index},
        "environment": "cloud",
    }


def test_every_integration_is_applied_by_a_test() -> None:
    """Their tests name directory and file; see tests/scenario/integrations."""
    directory = Path(__file__).parents[2] / "scenario" / "integrations"
    written = "".join(path.read_text() for path in directory.glob("test_*.py"))
    files = list(config_path("examples", "integrations").rglob("*.*"))
    assert files
    assert [str(path) for path in files if f'"{path.name}"' not in written] == []
    assert {path.parent.name for path in files if f'"{path.parent.name}"' not in written} == set()


def test_unquoted_star_is_a_yaml_error() -> None:
    text = config_path("examples", "04-restart-any.yaml").read_text(encoding="utf-8")
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(text.replace('event: "*"', "event: *"))


def test_ray_pods_name_their_group() -> None:
    for number in (1, 2):
        group, *pods = documents(config_path("examples", f"06-kuberay-raycluster-{number}.yaml"))
        decoded = [msgspec.convert(pod, Pod) for pod in pods]
        assert {pod["kind"] for pod in pods} == {POD.kind}
        assert {pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in decoded} == {
            group["metadata"]["name"]
        }
        assert len(decoded) == group["spec"]["minMember"]


def test_jobs_decode_to_the_values_of_their_description() -> None:
    jobs = {
        document["metadata"]["name"]: msgspec.convert(document, Job)
        for path in FILES
        for document in documents(path)
        if (document["apiVersion"], document["kind"]) == (JOB.api_version, JOB.kind)
        and path.parent.parent.name != "integrations"
    }
    assert {name: (job.spec.min_available, [t.replicas for t in job.spec.tasks]) for name, job in jobs.items()} == {
        "nginx": (3, [6]),
        "hello": (2, [2]),
        "tensorflow-dist-mnist": (3, [1, 2]),
        "mindspore-cpu": (1, [8]),
        "restart-any": (3, [1, 2]),
        "spark-pi": (3, [1, 5]),
        "gang-a": (5, [5]),
        "gang-b": (5, [5]),
        "hosts": (3, [1, 2]),
        "pytorch": (3, [1, 2]),
        "tensorflow": (4, [1, 2, 1]),
        "mpi": (3, [1, 2]),
        "ray": (3, [1, 2]),
        "hcclrank": (3, [1, 2]),
        "close": (4, [4]),
        "vgpu": (4, [4]),
        "first": (3, [3]),
        "second": (3, [3]),
        "borrower": (1, [32]),
        "owner": (1, [32]),
    }
