"""vcctl as its users and their scripts know it: flags, columns, texts, exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import yaml

from tests.commands import Ended, run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.documents import load_yaml
from volcanoio.model.packaged import config_path

FAILURE = 255


async def _run(
    program: str, c: Cluster, *words: str, code: int = 0, variables: Mapping[str, str] | None = None
) -> Ended:
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent", **(variables or {})}
    done = await run_aside(*words, program=program, environment=environment)
    assert done.code == code, done.out + done.err
    return done


async def _vcctl(c: Cluster, *words: str, fails: bool = False, variables: Mapping[str, str] | None = None) -> str:
    return (await _run("vcctl", c, *words, code=FAILURE if fails else 0, variables=variables)).out


async def _noted(c: Cluster, *words: str) -> str:
    """What a command of vcctl of which Volcano's prints nothing notes on stderr."""
    done = await _run("vcctl", c, *words)
    assert done.out == ""
    return done.err


async def test_a_job_is_run_listed_viewed_suspended_resumed_and_deleted() -> None:
    async with cluster(speed=0.2) as c:
        said = await _vcctl(c, "job", "run", "-N", "hello", "-r", "3", "-m", "2", "-R", "cpu=500m", "-L", "cpu=1")
        assert said == "run job hello successfully\n"
        job = await c.job("hello", "Running")
        assert (job.spec.min_available, job.spec.tasks[0].replicas) == (2, 3)
        container = job.spec.tasks[0].template["spec"]["containers"][0]
        assert container["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
        header, row, end = (await _vcctl(c, "job", "list")).split("\n")
        assert header == (
            "Name    Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   "
            "Failed    Unknown     RetryCount"
        )
        assert re.fullmatch(
            r"hello   \d{4}-\d\d-\d\d     Running     Batch       3           2     \d         \d         0           "
            r"0         0           0         ",
            row,
        )
        assert end == ""
        for everywhere in ("--all-namespaces", "-A"):
            rows = (await _vcctl(c, "job", "list", everywhere)).splitlines()
            assert rows[0].startswith("Namespace   Name    Creation")
            assert rows[1].startswith("default     hello   ")
        assert await _vcctl(c, "job", "list", "--selector", "none") == "No resources found\n"
        pods = (await _vcctl(c, "pod", "list", "-j", "hello", "-q", "default")).splitlines()
        assert re.fullmatch(r"Name                    Ready      Status {9}Restart  Age {7,}", pods[0])
        assert re.fullmatch(r"hello-default0-0        1/1        Running        0        \d+s {8}", pods[1])
        for everywhere in ("--all-namespaces", "-A"):
            assert (await _vcctl(c, "pod", "list", everywhere)).split()[:2] == ["Namespace", "Name"]
        assert await _vcctl(c, "pod", "list", "-j", "another") == "No resources found\n"
        assert await _vcctl(c, "pod", "list", "-j", "hello", "-q", "other", fails=True) == (
            "Failed to list pod: the input vcjob hello does not match the queue other\n"
        )
        view = await _vcctl(c, "job", "view", "-N", "hello")
        assert "Name:       \thello\n" in view
        assert f"  UID:               \t{job.metadata.uid}\n" in view
        assert "Events:" in view
        assert await _noted(c, "job", "resume", "-N", "hello") == (
            "job hello is Running and cannot be resumed; nothing changed\n"
        )
        assert await _noted(c, "job", "suspend", "-N", "hello") == "job hello is being suspended; it was Running\n"
        await c.job("hello", "Aborted")
        assert await _noted(c, "job", "suspend", "-N", "hello") == (
            "job hello is Aborted and cannot be suspended; nothing changed\n"
        )
        assert await _noted(c, "job", "resume", "-N", "hello") == "job hello is being resumed; it was Aborted\n"
        await c.job("hello", "Running")
        assert await _vcctl(c, "job", "delete", "-N", "hello") == "delete job hello successfully\n"
        await c.until(kinds.JOB, Job, lambda jobs: "hello" not in jobs, "gone")
        assert await _vcctl(c, "job", "list") == "No resources found\n"


async def test_tools_of_one_command_take_the_name_by_n_and_the_namespace_by_capital_n() -> None:
    async with cluster(speed=0.2, nodes=1) as c:
        await c.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})

        async def tool(program: str, *words: str) -> str:
            return (await _run(program, c, *words)).out

        variables = {"VOLCANO_DEFAULT_IMAGE": "python:3", "VOLCANO_DEFAULT_JOB_NAMESPACE": "ml"}
        command = ("-c", "python -c 'print(1 + 1)'")
        done = await _run("vsub", c, "-n", "train", *command, "-R", "cpu=100m", "-L", "", variables=variables)
        assert done.out == "run job train successfully\n"
        job = await c.job("train", "Running", "ml")
        container = job.spec.tasks[0].template["spec"]["containers"][0]
        assert (container["image"], container["command"]) == ("python:3", ["python", "-c", "print(1 + 1)"])
        assert job.spec.scheduler_name == "volcano"
        done = await _run("vsub", c, "-n", "other", "-S", "default-scheduler", "-i", "busybox", variables=variables)
        assert done.out == "run job other successfully\n"

        listed = await tool("vjobs", "-N", "ml", "--selector", "train")
        assert [line.split()[0] for line in listed.splitlines()] == ["Name", "train"]
        assert await tool("vjobs", "-N", "ml", "-S", "none") == listed.splitlines()[0] + "\n"
        assert await tool("vjobs") == "No resources found\n"
        assert "Name:       \ttrain\nNamespace:  \tml\n" in await tool("vjobs", "-N", "ml", "-n", "train")
        assert await tool("vsuspend", "-N", "ml", "-n", "train") == ""
        await c.job("train", "Aborted", "ml")
        assert await tool("vresume", "-N", "ml", "-n", "train") == ""
        await c.job("train", "Running", "ml")
        assert await tool("vcancel", "-N", "ml", "-n", "train") == "cancel job train successfully\n"
        for program, said in (
            ("vcancel", "job name is mandatory to cancel a particular job"),
            ("vsuspend", "job name is mandatory to suspend a particular job"),
            ("vresume", "job name is mandatory to resume a particular job"),
            ("vsub", "job name cannot be left blank"),
        ):
            assert (await _run(program, c, code=FAILURE)).out == f"Failed to: {said}\n"


async def test_vqueues_prints_the_counts_of_the_status() -> None:
    async with cluster(nodes=1) as c:
        await c.create(job_manifest("j", run="never"))
        await c.queue("default", lambda q: q.status.running == 1, "a running PodGroup")
        assert (await _run("vqueues", c, "-n", "default")).out == (
            "Name                     Weight  State   Inqueue Pending Running Unknown \n"
            "default                  1       Open    0       0       1       0       \n"
        )
        assert [line.split()[0] for line in (await _run("vqueues", c)).out.splitlines()] == ["Name", "default", "root"]


async def test_a_job_is_run_from_a_file_with_its_other_objects() -> None:
    async with cluster() as c:
        assert "run job mindspore-cpu successfully" in await _vcctl(
            c, "job", "run", "-f", str(config_path("examples", "03-mindspore.yaml"))
        )
        await c.job("mindspore-cpu", "Completed")


async def test_warnings_of_the_server_are_printed_on_stderr(tmp_path: Path) -> None:
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
        assert await _noted(c, "queue", "create", "-n", "ml", "-w", "3") == "create queue ml successfully\n"
        await c.queue("ml", lambda q: q.status.state == "Open" and q.spec.parent == "root", "Open under root")
        await c.create(job_manifest("j", run="never", queue="ml"))
        await c.job("j", "Running")
        assert await _vcctl(c, "queue", "list") == (
            "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed\n"
            "default                  1       Open    root    0       0       0       0       0       \n"
            "ml                       3       Open    root    0       0       1       0       0       \n"
            "root                     1       Open            0       0       0       0       0       \n"
        )
        close = ("queue", "operate", "-n", "ml", "-a", "close")
        assert await _noted(c, *close) == "queue ml is being closed; it was Open\n"
        await c.queue("ml", lambda q: q.status.state == "Closing", "Closing: it holds a PodGroup")
        assert await _noted(c, *close) == "queue ml is Closing; nothing changed\n"
        await _vcctl(c, "job", "delete", "-N", "j")
        await c.queue("ml", lambda q: q.status.state == "Closed", "Closed")
        assert await _noted(c, "queue", "operate", "-n", "ml", "-a", "open") == (
            "queue ml is being opened; it was Closed\n"
        )
        await c.queue("ml", lambda q: q.status.state == "Open", "Open")
        update = ("queue", "operate", "-n", "ml", "-a", "update", "-w", "7")
        assert await _noted(c, *update) == "queue ml now has weight 7\n"
        assert await _noted(c, *update) == "queue ml has weight 7; nothing changed\n"
        got = (await _vcctl(c, "queue", "get", "-n", "ml")).splitlines()[1].split()
        assert got[:3] == ["ml", "7", "Open"]
        assert await _noted(c, "queue", "delete", "-n", "ml") == "delete queue ml successfully\n"


async def test_a_child_queue_opens_with_its_parent() -> None:
    async with cluster(nodes=1) as c:
        for name, parent in (("team", "root"), ("ann", "team")):
            queue = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}}
            await c.create({**queue, "spec": {"parent": parent}})
            await c.queue(name, lambda q: q.status.state == "Open", "Open")
        await _vcctl(c, "queue", "operate", "-n", "team", "-a", "close")
        await c.queue("ann", lambda q: q.status.state == "Closed", "Closed")
        assert await _noted(c, "queue", "operate", "-n", "ann", "-a", "open") == (
            "queue ann is being opened; it was Closed\n"
            "it opens once its parent team is open: vcctl queue operate -n team -a open\n"
        )


async def test_failures_are_printed_to_stdout_with_exit_code_255(tmp_path: Path) -> None:
    star = tmp_path / "star.yaml"
    star.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n  policies:\n  - event: *\n")
    async with cluster(nodes=1) as c:
        for words, said in (
            (("job", "view", "-N", "ghost"), "Failed to view job: jobs.batch.volcano.sh"),
            (("job", "run"), "Failed to run job: job name cannot be left blank"),
            (("job", "run", "-f", str(star)), 'quote it, as in event: "*"'),
            (("job", "run", "-f", str(tmp_path / "none.yaml")), "cannot read"),
            (("job", "run", "-f", "job.json"), "Failed to run job: only support yaml file\n"),
            (("job", "run", "-N", "j", "-R", "cpu=lots"), "quantities must match the regular expression '^([+-]?"),
            (("job", "run", "-N", "j", "-L", "cpu"), "invalid argument syntax cpu, expected <resource>=<value>\n"),
            (("job", "view"), "job name (specified by --name or -N) is mandatory to view a particular job\n"),
            (("queue", "get"), "Failed to get queue: name is mandatory to get the particular queue details\n"),
            (("queue", "delete"), "Failed to delete queue: queue name must be specified\n"),
            (("queue", "operate", "-n", "q"), "Failed to operate queue: action can not be null\n"),
            (
                ("queue", "operate", "-n", "q", "-a", "update"),
                "when update queue q, weight must be specified, the value must be greater than 0\n",
            ),
            (
                ("queue", "operate", "-n", "default", "-a", "shut"),
                "action shut invalid, valid actions are open, close and update\n",
            ),
            (
                ("queue", "operate", "-n", "root", "-a", "close"),
                "the root queue cannot be closed; close the",
            ),
            (("help", "jobs"), "No such command 'jobs'. Did you mean 'job'?"),
            (("queue", "delete", "-n", "root"), "Failed to delete queue"),
            (("job", "list", "--kubeconfig", str(tmp_path / "nope")), "volcanoio up"),
            (("job", "list", "--master", "nonsense"), '--master: "nonsense" is not an http(s) URL'),
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
            assert (await _vcctl(c, *groups)).partition("Usage:\n  vcctl")[1]


def _documented_kubeconfig() -> str:
    found = re.search(
        r"```yaml\n(apiVersion: v1\nkind: Config.*?)```", Path("docs/user-login.md").read_text(), re.DOTALL
    )
    assert found is not None
    return found[1]


async def test_users_log_in_by_the_exec_plugin_of_their_kubeconfig(tmp_path: Path) -> None:
    """The user of `docs/user-login.md`, whose `kubectl oidc-login` is a script here; the cluster is in another file."""
    plugin, mine = tmp_path / "kubectl", tmp_path / "config"
    async with cluster(nodes=1) as c:
        stored = load_yaml(c.local.kubeconfig.read_text())
        token = next(user["user"]["token"] for user in stored["users"] if "token" in user["user"])
        api = "client.authentication.k8s.io/v1"
        credential = f'{{"apiVersion":"{api}","kind":"ExecCredential","status":{{"token":"{token}"}}}}'
        plugin.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'oidc-login get-token' ] && echo '{credential}'\n")
        plugin.chmod(0o755)
        document = load_yaml(_documented_kubeconfig())
        document["contexts"][0]["context"]["cluster"] = stored["clusters"][0]["name"]
        mine.write_text(yaml.safe_dump({**document, "clusters": []}))
        files = {"KUBECONFIG": f"{mine}:{c.local.kubeconfig}", "PATH": str(tmp_path)}
        assert await _vcctl(c, "job", "run", "-N", "hello", variables=files) == "run job hello successfully\n"
        assert "hello" in await _vcctl(c, "job", "list", variables=files)
        plugin.write_text("#!/bin/sh\nexit 1\n")
        refused = await _vcctl(c, "job", "list", fails=True, variables=files)
        assert f"{mine}: users[me]: exec: kubectl ended with exit code 1; run it by hand to see why" in refused
