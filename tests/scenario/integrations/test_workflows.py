"""Argo, Airflow and Cromwell: workflow engines whose steps are Volcano Jobs or pods in a queue."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from pathlib import Path

import anyio

from tests.commands import run_aside
from tests.scenario.cluster.containers import read
from tests.scenario.cluster.harness import Cluster
from tests.scenario.integrations import operators
from tests.scenario.integrations.support import (
    LONG,
    cpus,
    create_all,
    define,
    group,
    hurry,
    kind_of,
    manifest,
    running,
    starts_as_a_whole,
    unhurried,
)
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.packaged import config_path

CROMWELL = config_path("examples", "integrations", "cromwell", "backend.conf")


def template(workflow: Manifest, name: str) -> Manifest:
    """A template of a workflow by name."""
    found: Manifest = next(each for each in workflow["spec"]["templates"] if each["name"] == name)
    return found


async def submitted(c: Cluster, file: str) -> Manifest:
    """A user submits a workflow; it is created, with a name that the server generates."""
    await define(c, manifest("argo", file, kind="Workflow"))
    await create_all(c, "argo", "rbac.yaml")
    (workflow,) = await create_all(c, "argo", file)
    return workflow


async def test_argo_runs_a_job_as_a_step_and_sees_its_end() -> None:
    jobs: list[Manifest] = []
    async with unhurried(**cpus(3)) as c:
        workflow = await submitted(c, "job-step.yaml")
        assert re.fullmatch(r"volcano-step-\w{5}", workflow["metadata"]["name"])
        step = template(workflow, "gang")

        async def start() -> None:
            jobs.append(await operators.argo_create(c, workflow, step, {}))

        await starts_as_a_whole(c, start, "step-", 3)
        name = jobs[0]["metadata"]["name"]
        assert re.fullmatch(r"step-\w{5}", name)
        selector = f"volcano.sh/job-name={name},volcano.sh/task-spec=worker"
        assert len(await c.client.list(kinds.POD, "default", label_selector=selector)) == 3
        success, failure = (step["resource"][key] for key in ("successCondition", "failureCondition"))
        assert not operators.argo_holds(success, await read(c, kinds.JOB, name))
        hurry(c)
        await c.until(
            kinds.JOB, Job, lambda all_: all_[name].status.state.phase == "Completed", "the step is successful"
        )
        ended = await read(c, kinds.JOB, name)
        assert operators.argo_holds(success, ended)
        assert not operators.argo_holds(failure, ended)
        await c.client.delete(kind_of(workflow), workflow["metadata"]["name"], "default")
        await c.until(kinds.JOB, Job, lambda all_: not all_, "the Job goes with its workflow")


async def test_argo_sees_a_job_that_fails() -> None:
    async with unhurried() as c:
        workflow = await submitted(c, "job-step.yaml")
        step = template(workflow, "gang")
        failing = step["resource"]["manifest"].replace(f"run-duration: {LONG}", 'exit-code: "3"')
        failing = failing.replace("event: TaskCompleted\n", "event: PodFailed\n").replace("CompleteJob", "AbortJob")
        step["resource"]["manifest"] = failing
        job = await operators.argo_create(c, workflow, step, {})
        hurry(c)
        await c.job(job["metadata"]["name"], "Aborted")
        ended = await read(c, kinds.JOB, job["metadata"]["name"])
        assert operators.argo_holds(step["resource"]["failureCondition"], ended)


async def test_argo_runs_a_dag_of_jobs_in_order() -> None:
    async with unhurried(**cpus(4)) as c:
        workflow = await submitted(c, "job-dag.yaml")
        hurry(c)
        created: dict[str, Manifest] = {}
        for task in template(workflow, "main")["dag"]["tasks"]:
            for name in task.get("dependencies", ()):
                await c.job(created[name]["metadata"]["name"], "Completed")
            parameters = {each["name"]: each["value"] for each in task["arguments"]["parameters"]}
            step = template(workflow, task["template"])
            created[task["name"]] = await operators.argo_create(c, workflow, step, parameters)
        assert [each["spec"]["minAvailable"] for each in created.values()] == [1, 3, 1]
        for job in created.values():
            await c.job(job["metadata"]["name"], "Completed")


async def test_airflows_pods_wait_in_their_queue_in_groups_of_their_own() -> None:
    async with unhurried(**cpus(32)) as c:
        await create_all(c, "airflow", "queue.yaml")
        for _ in range(9):
            await create_all(c, "airflow", "pod-template.yaml")
        await c.until(
            kinds.POD, Pod, lambda all_: sum(pod.status.phase == "Running" for pod in all_.values()) == 8, "eight run"
        )
        pods = await c.pods("airflow-task-")
        assert len(pods) == 9
        for pod in pods:
            found = await group(c, f"podgroup-{pod.metadata.uid}", lambda one: bool(one.status.phase), "is there")
            assert (found.spec.queue, found.spec.min_member) == ("airflow", 1)
            assert [each.uid for each in found.metadata.owner_references] == [pod.metadata.uid]
        hurry(c)
        await c.until(
            kinds.POD, Pod, lambda all_: all(pod.status.phase == "Succeeded" for pod in all_.values()), "all are done"
        )


def setting(name: str) -> str:
    """A setting of the Cromwell backend, as Cromwell's reader of HOCON decodes it."""
    found = re.search(rf'^ +{name} = (?:"""\n(.*?)"""|"(.*?)")$', CROMWELL.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, name
    if found[1] is None:
        return found[2].replace("\\\\", "\\")
    indent = re.match(" *", found[1])[0]  # type: ignore[index]  # it always matches
    return "\n".join(line.removeprefix(indent) for line in found[1].rstrip().splitlines())


class Cromwell:
    """What Cromwell does with the settings of a backend: fill in its variables and run the lines in a shell."""

    def __init__(self, c: Cluster, directory: Path, **variables: str) -> None:
        program = directory / "vcctl"
        run = "from volcanoio.cli.vcctl import main; main()"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{run}" "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join((str(directory), os.environ["PATH"]))
        self._environment = {**os.environ, "KUBECONFIG": str(c.local.kubeconfig), "PATH": path}
        self._variables = {"cwd": str(directory), **variables}

    async def run(self, text: str, **variables: str) -> tuple[int, str]:
        """Run a setting; the exit code and what it prints."""
        for name, value in (self._variables | variables).items():
            text = text.replace("${" + name + "}", value)
        done = await anyio.run_process(["sh", "-c", text], env=self._environment, check=False)
        return done.returncode, done.stdout.decode() + done.stderr.decode()


async def test_cromwell_submits_follows_and_ends_a_task_by_vcctl(tmp_path: Path) -> None:
    values = {"docker": "busybox:1.36.1", "queue": "default", "cpu": "1", "docker_script": "/cromwell/script"}
    async with unhurried() as c:
        await create_all(c, "cromwell", "claim.yaml")
        cromwell = Cromwell(c, tmp_path, job_name="cromwell_1f2e3d4c_Align", **values)
        code, said = await cromwell.run(setting("submit-docker"))
        found = re.search(setting("job-id-regex"), said)
        assert (code, found is not None) == (0, True), said
        assert found is not None
        assert re.fullmatch(r"cromwell-1f2e3d4c-align-\d+", found[1])
        job = await c.until(kinds.JOB, Job, lambda all_: found[1] in all_, "the Job of the task")
        container = job[found[1]].spec.tasks[0].template["spec"]["containers"][0]
        assert (container["command"], container["image"]) == (["/bin/sh", "/cromwell/script"], "busybox:1.36.1")
        assert (await cromwell.run(setting("check-alive"), job_id=found[1]))[0] == 0
        assert (await cromwell.run(setting("kill-docker"), job_id=found[1]))[0] == 0
        await c.until(kinds.JOB, Job, lambda all_: not all_, "the Job is deleted")


async def test_cromwells_own_example_takes_digits_and_a_file_that_ends_in_yaml(tmp_path: Path) -> None:
    """Its submit is `vcctl job run -f ${script}` and its pattern (\\d+): the name of the Job must be a number."""
    lines = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: '4711'}\nspec:\n  tasks:\n"
    lines += "  - {replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}\n"
    (tmp_path / "script").write_text(lines)
    (tmp_path / "script.yaml").write_text(lines)
    async with unhurried() as c:
        environment = {"KUBECONFIG": str(c.local.kubeconfig)}
        vcctl = partial(run_aside, program="vcctl", environment=environment)
        refused = await vcctl("job", "run", "-f", str(tmp_path / "script"))
        assert refused.code == 255
        assert refused.out == "Failed to run job: only support yaml file\n"
        done = await vcctl("job", "run", "-f", str(tmp_path / "script.yaml"))
        assert (done.code, done.out) == (0, "run job 4711 successfully\n")
        found = re.search(r"(\d+)", done.out)
        assert found is not None
        await running(c, 1, **{"volcano.sh/job-name": found[1]})
        assert (await vcctl("job", "view", "-N", found[1])).code == 0
        assert (await vcctl("job", "delete", "-N", found[1])).code == 0
