"""JobFlows in a whole cluster: a pipeline in its order, probes that pods answer, what is retained."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.commands import run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.kube.errors import Forbidden
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.flow import JobFlow, JobTemplate
from volcanoio.model.packaged import config_path


def template(name: str, run: str = "10s") -> Manifest:
    spec = job_manifest("x", run=run)["spec"]
    return {
        "apiVersion": kinds.JOB_TEMPLATE.api_version,
        "kind": "JobTemplate",
        "metadata": {"name": name},
        "spec": spec,
    }


def flow(*parts: Manifest, **spec: str) -> Manifest:
    content = {"flows": list(parts), **spec}
    return {"apiVersion": kinds.JOB_FLOW.api_version, "kind": "JobFlow", "metadata": {"name": "f"}, "spec": content}


async def until(c: Cluster, name: str, phase: str) -> JobFlow:
    """The flow, once it is in a phase."""
    found = await c.until(
        kinds.JOB_FLOW, JobFlow, lambda all_: name in all_ and all_[name].status.state.phase == phase, f"{name} {phase}"
    )
    return found[name]


async def test_the_example_runs_in_its_order() -> None:
    async with cluster(speed=math.inf, nodes=2) as c:
        await c.example("21-jobflow.yaml")
        done = await until(c, "pipeline", "Succeed")
        assert done.status.completed_jobs == ("pipeline-prepare", "pipeline-train", "pipeline-watch")
        began = {entry.name: entry.start_timestamp or "" for entry in done.status.job_status_list}
        ended = {entry.name: entry.running_histories[-1].start_timestamp or "" for entry in done.status.job_status_list}
        assert ended["pipeline-prepare"] <= began["pipeline-train"] <= began["pipeline-watch"] < ended["pipeline-train"]
        train = await c.client.get(kinds.JOB, "pipeline-train", "default")
        assert isinstance(train, Job)
        assert (train.spec.min_available, train.spec.tasks[1].replicas, train.status.succeeded) == (4, 3, 4)
        await c.until(
            kinds.JOB_TEMPLATE,
            JobTemplate,
            lambda all_: "train" in all_ and all_["train"].status.job_depends_on_list == ("pipeline-train",),
            "the template's list",
        )


async def test_a_template_may_come_last_and_jobs_go_when_asked() -> None:
    async with cluster(speed=math.inf, nodes=1) as c:
        await c.create(
            flow({"name": "a.v1"}, {"name": "b", "dependsOn": {"targets": ["a.v1"]}}, jobRetainPolicy="delete")
        )
        await c.events("f", "JobTemplateNotFound")
        for name in ("b", "a.v1"):
            await c.create(template(name))
        done = await until(c, "f", "Succeed")
        assert done.status.completed_jobs == ("f-a.v1", "f-b")
        await c.until(kinds.JOB, Job, lambda all_: not all_, "no jobs")


async def test_a_flow_waits_until_simulated_pods_are_ready() -> None:
    """Where nothing really runs, a pod answers from when it is ready."""
    async with cluster(speed=math.inf, nodes=1) as c:
        serving = template("server", run="2h")
        pod = serving["spec"]["tasks"][0]["template"]
        pod["metadata"]["annotations"]["sim.volcanoio.dev/readiness-probe"] = "ok-after(10m)"
        pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}}
        await c.create(serving)
        await c.create(template("client"))
        probe = {"httpGetList": [{"taskName": "task", "path": "/", "port": 80}]}
        await c.create(
            flow({"name": "server"}, {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}})
        )
        server = await c.job("f-server", "Running")
        client = await c.job("f-client", "Completed")
        waited = seconds(client.metadata.creation_timestamp) - seconds(server.metadata.creation_timestamp)
        assert 600 <= waited < 3600
        assert (await until(c, "f", "Running")).status.running_jobs == ("f-server",)


def seconds(text: str | None) -> float:
    from datetime import datetime

    assert text is not None
    return datetime.fromisoformat(text).timestamp()


async def test_a_flow_that_is_no_graph_is_refused() -> None:
    async with cluster(nodes=1) as c:
        with pytest.raises(Forbidden) as refused:
            await c.create(flow({"name": "a", "dependsOn": {"targets": ["x"]}}))
        assert 'admission webhook "validatejobflow.volcano.sh" denied the request: ' in str(refused.value)
        assert "jobflow Flow is not DAG: vertex is not defined: x" in str(refused.value)


async def _vcctl(c: Cluster, *words: str, code: int = 0) -> str:
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await run_aside(*words, program="vcctl", environment=environment)
    assert done.code == code, done.out + done.err
    return done.out


async def test_vcctl_creates_lists_shows_and_deletes(tmp_path: Path) -> None:
    async with cluster(nodes=2) as c:
        example = config_path("examples", "21-jobflow.yaml").read_text()
        *templates, jobflow = example.split("\n---\n")
        files = {"t.yaml": "\n---\n".join(templates), "f.yaml": jobflow}
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        said = await _vcctl(c, "jobtemplate", "create", "-f", str(tmp_path / "t.yaml"))
        assert said.splitlines() == [f"Created JobTemplate: default/{name}" for name in ("prepare", "train", "watch")]
        assert await _vcctl(c, "jobflow", "list", "--all-namespaces") == "No resources found\n"
        assert (
            await _vcctl(c, "jobflow", "create", "-f", str(tmp_path / "f.yaml"))
            == "Created JobFlow: default/pipeline\n"
        )
        listed = (await _vcctl(c, "jobflow", "list")).splitlines()
        assert listed[0].startswith("Name        Namespace    Phase ")
        assert listed[1].startswith("pipeline    default      ")
        assert await _vcctl(c, "jobtemplate", "get", "-N", "train") == (
            "Name     Namespace    \ntrain    default      \n"
        )
        assert "\n  jobRetainPolicy: retain\n" in await _vcctl(c, "jobflow", "describe", "-N", "pipeline")
        for form in ("-o", "--format"):
            described = await _vcctl(c, "jobtemplate", "describe", form, "json")
            assert described.count('"kind": "JobTemplate"') == 3
            assert described.count("}\n---------------------------------\n") == 3
            assert "managedFields" not in described
        again = await _vcctl(c, "jobflow", "create", "-f", str(tmp_path / "f.yaml"), code=255)
        assert again.startswith("Failed to create jobflow: create JobFlow default/pipeline: ")
        assert await _vcctl(c, "jobflow", "delete", "-N", "pipeline") == "Deleted JobFlow: default/pipeline\n"
        said = await _vcctl(c, "jobtemplate", "delete", "-f", str(tmp_path / "t.yaml"))
        assert said.splitlines() == [f"Deleted JobTemplate: default/{name}" for name in ("prepare", "train", "watch")]
        assert await _vcctl(c, "jobflow", "get", code=255) == (
            "Failed to get jobflow: name is mandatory to get the particular jobflow details\n"
        )
