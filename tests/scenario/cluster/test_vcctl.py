"""vcctl as its users and their scripts know it: flags, columns, texts, exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.packaged import config_path

FAILURE = 255


async def _vcctl(c: Cluster, *words: str, fails: bool = False) -> str:
    command = [sys.executable, "-c", "from volcanoio.cli.vcctl import main; main()", *words]
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await anyio.run_process(command, check=False, env=environment)
    output = done.stdout.decode()
    assert done.returncode == (FAILURE if fails else 0), output + done.stderr.decode()
    return output


async def test_a_job_is_run_listed_viewed_suspended_resumed_and_deleted() -> None:
    async with cluster(speed=0.2) as c:
        said = await _vcctl(c, "job", "run", "-N", "hello", "-r", "3", "-m", "2", "-R", "cpu=500m", "-L", "cpu=1")
        assert said == "run job hello successfully\n"
        job = await c.job("hello", "Running")
        assert (job.spec.min_available, job.spec.tasks[0].replicas) == (2, 3)
        container = job.spec.tasks[0].template["spec"]["containers"][0]
        assert container["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
        listed = (await _vcctl(c, "job", "list")).splitlines()
        assert listed[0].split() == (
            [
                "Name",
                "Creation",
                "Phase",
                "JobType",
                "Replicas",
                "Min",
                "Pending",
                "Running",
                "Succeeded",
                "Failed",
                "Unknown",
                "RetryCount",
            ]
        )
        assert listed[1].split()[0] == "hello"
        assert listed[1].split()[2:4] == ["Running", "Batch"]
        everywhere = await _vcctl(c, "job", "list", "--all-namespaces")
        assert everywhere.splitlines()[1].split()[:2] == ["default", "hello"]
        pods = (await _vcctl(c, "pod", "list", "-j", "hello", "-q", "default")).splitlines()
        assert pods[0].split() == ["Name", "Ready", "Status", "Restart", "Age"]
        assert pods[1].split()[1:4] == ["1/1", "Running", "0"]
        assert (await _vcctl(c, "pod", "list", "--all-namespaces")).split()[:2] == ["Namespace", "Name"]
        assert await _vcctl(c, "pod", "list", "-j", "another") == "No resources found\n"
        view = await _vcctl(c, "job", "view", "-N", "hello")
        assert "Name:               hello" in view
        assert "Events:" in view
        await _vcctl(c, "job", "suspend", "-N", "hello")
        await c.job("hello", "Aborted")
        await _vcctl(c, "job", "resume", "-N", "hello")
        await c.job("hello", "Running")
        assert await _vcctl(c, "job", "delete", "-N", "hello") == "delete job hello successfully\n"
        await c.until(kinds.JOB, Job, lambda jobs: "hello" not in jobs, "gone")
        assert await _vcctl(c, "job", "list") == "No resources found\n"


async def test_a_job_is_run_from_a_file_with_what_it_needs() -> None:
    async with cluster() as c:
        assert "run job mindspore-cpu successfully" in await _vcctl(
            c, "job", "run", "-f", str(config_path("examples", "03-mindspore.yaml"))
        )
        await c.job("mindspore-cpu", "Completed")


async def test_warnings_of_the_server_are_told_on_stderr(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec:\n  tasks:\n"
        "  - {replicas: 1, template: {spec: {priorityClass: high, containers: [{name: c, image: i}]}}}\n"
    )
    async with cluster(nodes=1) as c:
        command = [sys.executable, "-c", "from volcanoio.cli.vcctl import main; main()"]
        done = await anyio.run_process(
            [*command, "job", "run", "-f", str(file), "-k", str(c.local.kubeconfig)], check=False
        )
    assert done.stdout.decode() == "run job j successfully\n"
    assert done.stderr.decode().splitlines() == [
        'Warning: unknown field "spec.tasks[0].template.spec.priorityClass"; did you mean "priorityClassName"?'
    ]


async def test_a_queue_is_created_listed_closed_opened_updated_and_deleted() -> None:
    async with cluster(nodes=1) as c:
        await _vcctl(c, "queue", "create", "-n", "ml", "-w", "3")
        await c.queue("ml", lambda q: q.status.state == "Open" and q.spec.parent == "root", "Open under root")
        await c.create(job_manifest("j", run="never", queue="ml"))
        await c.job("j", "Running")
        rows = (await _vcctl(c, "queue", "list")).splitlines()
        header = ["Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed"]
        assert rows[0].split() == header
        assert ["ml", "3", "Open", "root", "0", "0", "1", "0", "0"] in [row.split() for row in rows]
        await _vcctl(c, "queue", "operate", "-n", "ml", "-a", "close")
        await c.queue("ml", lambda q: q.status.state == "Closing", "Closing: it holds a PodGroup")
        await _vcctl(c, "job", "delete", "-N", "j")
        await c.queue("ml", lambda q: q.status.state == "Closed", "Closed")
        await _vcctl(c, "queue", "operate", "-n", "ml", "-a", "open")
        await c.queue("ml", lambda q: q.status.state == "Open", "Open")
        await _vcctl(c, "queue", "operate", "-n", "ml", "-a", "update", "-w", "7")
        got = (await _vcctl(c, "queue", "get", "-n", "ml")).splitlines()[1].split()
        assert got[:3] == ["ml", "7", "Open"]
        await _vcctl(c, "queue", "delete", "-n", "ml")


async def test_failures_name_what_to_do_on_stdout_with_exit_code_255(tmp_path: Path) -> None:
    star = tmp_path / "star.yaml"
    star.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n  policies:\n  - event: *\n")
    async with cluster(nodes=1) as c:
        for words, said in (
            (("job", "view", "-N", "ghost"), "Failed to view job: jobs.batch.volcano.sh"),
            (("job", "run"), "Failed to run job: job name cannot be left blank"),
            (("job", "run", "-f", str(star)), 'quote it, as in event: "*"'),
            (("job", "run", "-f", str(tmp_path / "none.yaml")), "cannot read"),
            (("job", "run", "-N", "j", "-R", "cpu=lots"), "--requests"),
            (("queue", "operate", "-n", "default", "-a", "shut"), "none of open, close, update"),
            (("queue", "delete", "-n", "root"), "Failed to delete queue"),
            (("job", "list", "--kubeconfig", str(tmp_path / "nope")), "volcanoio up"),
            (("job", "list", "--master", "nonsense"), '--master: "nonsense" is no http(s) URL'),
            (("job", "list", "--master", "https://127.0.0.1:1"), "cannot reach the API server"),
            (("job", "list", "--nope"), "--help' for usage."),
            (("job", "lst"), "Did you mean 'list'?"),
        ):
            assert said in await _vcctl(c, *words, fails=True)


async def test_logging_flags_are_taken_everywhere_and_groups_alone_show_their_help() -> None:
    async with cluster(nodes=1) as c:
        for words in (
            ("--v=3", "job", "list"),
            ("job", "-v", "3", "list", "--vmodule=informer=4"),
            ("job", "list", "--log-flush-frequency", "5s"),
        ):
            assert await _vcctl(c, *words) == "No resources found\n"
        for groups in ([], ["job"], ["queue"]):
            assert (await _vcctl(c, *groups)).startswith("Usage: ")
