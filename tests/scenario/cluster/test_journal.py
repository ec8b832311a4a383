"""The journal of a scenario: it replays, one changed event shows, a crash does no harm, and it keeps no secret."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.commands import run as run_command
from tests.commands import run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from tests.scenario.cluster.journals import texts
from volcanoio.bus.journal import Difference, JournalError, read_runs
from volcanoio.compose.journals.comparison import compare_configuration
from volcanoio.compose.journals.replay import replay_controllers, replay_scheduler
from volcanoio.compose.journals.shrinking import shrink
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.framework import entrypoints
from volcanoio.framework.events import Observed
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.loading.registry import discover

Line = dict[str, Any]
REGISTRY = discover()
REPLAYS: dict[str, Callable[[Path], Difference | None]] = {
    "controllers": lambda directory: replay_controllers(directory, REGISTRY).first,
    "scheduler": lambda directory: replay_scheduler(directory, REGISTRY).first,
}
_CONTROLLER_CONF = "policies:\n- name: declared\n"
_KEY = "-----BEGIN RSA PRIVATE KEY-----\nhush-key\n-----END RSA PRIVATE KEY-----\n"
_RESTART_ON_3 = [{"exitCode": 3, "action": "RestartJob"}]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a restart by exit code, a gang that waits for room, secrets, and two starts of both processes."""
    directory = tmp_path_factory.mktemp("recorded")
    conf = directory / "volcano-controller.conf"
    conf.write_text(_CONTROLLER_CONF)
    anyio.run(_record, directory / "journal", conf)
    return directory / "journal"


async def _record(directory: Path, conf: Path) -> None:
    async with cluster(
        nodes=2, node_resources="cpu=4,memory=8Gi,pods=110", journal=directory, controller_conf=conf
    ) as c:
        fails = {"sim.volcanoio.dev/fail-attempts": "1", "sim.volcanoio.dev/exit-code": "3"}
        await c.create(job_manifest("fails", replicas=2, run="6s", annotations=fails, policies=_RESTART_ON_3))
        await c.job("fails", "Running")
        await c.create(job_manifest("waits", replicas=8, run="2s"))
        await c.job("fails", "Completed")
        await c.job("waits", "Completed")
        c.local.stop("scheduler")
        c.local.stop("controllers")
        await c.local.start_controllers()
        await c.local.start_scheduler()
        await _secretive(c)


async def _secretive(c: Cluster) -> None:
    """Return a job and a Secret with confidential values in all fields that may have some."""
    job = job_manifest(
        "quiet", plugins={"env": [], "svc": [], "ssh": [f"--ssh-private-key={_KEY}", "--ssh-public-key=p"]}
    )
    job["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hush-applied"}
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": "hush-env"}]
    container["envFrom"] = [{"secretRef": {"name": "hush-from"}}]
    await c.create(job)
    labels = {"volcano.sh/job-name": "quiet", "volcano.sh/job-namespace": "default"}
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kept", "namespace": "default", "labels": labels},
        "data": {"key": "aHVzaC1kYXRh"},
        "stringData": {"other": "hush-string"},
    }
    await c.create(secret)
    await c.job("quiet", "Completed")


def test_replay_of_both_processes_has_equal_decisions(journal: Path) -> None:
    for process, replayed in REPLAYS.items():
        assert replayed(journal / process) is None
        runs = read_runs(journal / process)
        assert [run.opened.process for run in runs] == [process, process]
        assert all(run.events[0].seq == 1 for run in runs)


def test_the_command_says_that_every_decision_is_the_same(journal: Path) -> None:
    ended = run_command("replay", str(journal))
    assert ended.code == 0
    assert [line.partition(" (")[0] for line in ended.out.splitlines()] == [
        "scheduler: every decision is the same",
        "controllers: every decision is the same",
    ]


def test_the_command_shows_the_first_difference(journal: Path, tmp_path: Path) -> None:
    altered(journal / "scheduler", tmp_path / "scheduler", lambda line: observed(line, "nodes"), smaller_node)
    ended = run_command("replay", str(tmp_path))
    assert ended.code == 1
    assert ended.out.startswith("scheduler: the first difference: decision ")


def test_the_command_needs_a_journal(tmp_path: Path) -> None:
    ended = run_command("replay", str(tmp_path))
    assert ended.code == 2
    assert "no journal; give the directory of --journal" in ended.err


def test_a_journal_contains_the_configuration_in_force(journal: Path) -> None:
    for run in read_runs(journal / "controllers"):
        assert run.configured["volcano-controller.conf"] == _CONTROLLER_CONF
        assert run.plugins[entrypoints.LIFECYCLE_POLICIES, "declared"].startswith("volcanoio ")
        assert run.plugins[entrypoints.JOB_PLUGINS, "ssh"].startswith("volcanoio ")
    for run in read_runs(journal / "scheduler"):
        assert "enqueue" in run.configured["volcano-scheduler.conf"]
        assert run.plugins[entrypoints.SCHEDULER_PLUGINS, "gang"].startswith("volcanoio ")
        assert run.plugins[entrypoints.ACTIONS, "allocate"].startswith("volcanoio ")


def observed(line: Line, resource: str, name: str = "", change: str = "") -> bool:
    """Whether a line is such an observation."""
    event = line.get("event", {})
    return (
        event.get("type") == "Observed"
        and event["resource"] == resource
        and name in ("", event["object"]["$object"]["metadata"]["name"])
        and change in ("", event["change"])
    )


def content(line: Line) -> Manifest:
    """Return the object of an observation."""
    found: Manifest = line["event"]["object"]["$object"]
    return found


def altered(journal: Path, into: Path, pick: Callable[[Line], bool], change: Callable[[Line], Line | None]) -> int:
    """Write a copy in which the first matching line is changed or dropped; return the seq of its event."""
    shutil.copytree(journal, into)
    segment = into / "00000001.jsonl"
    lines = [json.loads(line) for line in segment.read_bytes().splitlines()]
    at = next(number for number, line in enumerate(lines) if pick(line))
    seq: int = lines[at]["event"]["seq"]
    replacement = change(lines[at])
    lines[at : at + 1] = [] if replacement is None else [replacement]
    segment.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return seq


def smaller_node(line: Line) -> Line:
    """Let the node offer one core."""
    content(line)["status"]["allocatable"]["cpu"] = "1"
    return line


def greater_demand(line: Line) -> Line:
    """Let the gang request more than there is."""
    content(line)["spec"]["minResources"]["cpu"] = "100"
    return line


def no_allocation(line: Line) -> Line:
    """Remove the actions that place pods from the configuration."""
    line["event"]["text"] = "actions: enqueue\ntiers: []\n"
    return line


def other_code(line: Line) -> Line:
    """Change the exit code of the container."""
    content(line)["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 4
    return line


def dropped(line: Line) -> None:
    """Drop the event."""


CHANGES: dict[str, tuple[str, Callable[[Line], bool], Callable[[Line], Line | None]]] = {
    "a node's allocatable": ("scheduler", lambda line: observed(line, "nodes"), smaller_node),
    "a gang's demand": (
        "scheduler",
        lambda line: observed(line, kinds.POD_GROUP.resource) and content(line)["spec"]["minMember"] == 2,
        greater_demand,
    ),
    "the configuration": (
        "scheduler",
        lambda line: line.get("event", {}).get("type") == "ConfigurationChanged",
        no_allocation,
    ),
    "a pod not seen": ("scheduler", lambda line: observed(line, "pods", "fails-task-0"), dropped),
    "a pod's exit code": (
        "controllers",
        lambda line: observed(line, "pods") and content(line).get("status", {}).get("phase") == "Failed",
        other_code,
    ),
    "a pod's end not seen": (
        "controllers",
        lambda line: observed(line, "pods") and content(line).get("status", {}).get("phase") == "Failed",
        dropped,
    ),
    "a job not seen": ("controllers", lambda line: observed(line, kinds.JOB.resource, "waits"), dropped),
}


@pytest.mark.parametrize("what", CHANGES)
def test_one_changed_event_changes_the_decisions(what: str, journal: Path, tmp_path: Path) -> None:
    process, pick, change = CHANGES[what]
    seq = altered(journal / process, tmp_path / process, pick, change)
    difference = REPLAYS[process](tmp_path / process)
    assert difference is not None
    decided = difference.recorded or difference.replayed
    assert decided is not None
    assert decided.cause >= seq, "nothing differs before the change"
    assert difference.chain or change is dropped


def test_until_ends_the_replay_at_an_event_and_shows_the_last_decision(journal: Path) -> None:
    whole, part = (replay_scheduler(journal / "scheduler", REGISTRY, until=until) for until in (None, 100))
    assert part.first is None
    assert 0 < part.decisions < whole.decisions
    assert part.last is not None
    assert part.last.cause <= 100
    ended = run_command("replay", str(journal), "--until", "100")
    assert f"the last one up to #100: scheduler for {part.last.key}, caused by #{part.last.cause}" in ended.out


def test_the_recorded_configuration_decides_every_cycle_the_same(journal: Path) -> None:
    text = read_runs(journal / "scheduler")[0].configured["volcano-scheduler.conf"]
    found = compare_configuration(journal / "scheduler", REGISTRY, text)
    assert found.cycles == found.same > 0
    assert found.first is None
    counts = found.queues["default"]
    assert counts.bound == counts.other_bound > 0


def test_another_configuration_is_compared(journal: Path, tmp_path: Path) -> None:
    conf = tmp_path / "enqueue-only.conf"
    conf.write_text("actions: enqueue\ntiers: []\n")
    found = compare_configuration(journal / "scheduler", REGISTRY, conf.read_text())
    assert found.first is not None
    assert found.first.recorded[0].startswith("bind default/")
    assert found.queues["default"].bound > 0
    assert found.queues["default"].other_bound == 0
    ended = run_command("replay", str(journal), "--conf", str(conf))
    assert ended.code == 0
    assert f"only recorded: {found.first.recorded[0]}" in ended.out
    wrong = run_command("replay", str(journal), "--conf", str(tmp_path / "none.conf"))
    assert wrong.code == 2
    assert "none.conf: No such file or directory" in wrong.err


@pytest.mark.parametrize("what", ["a node's allocatable", "a gang's demand", "a pod's exit code", "a pod not seen"])
def test_a_failing_journal_is_reduced_to_few_objects_that_fail_in_the_same_way(
    what: str, journal: Path, tmp_path: Path
) -> None:
    process, pick, change = CHANGES[what]
    altered(journal / process, tmp_path / process, pick, change)
    found = shrink(tmp_path / process, process, REGISTRY, tmp_path / "small")
    assert found.objects[1] <= 20
    assert found.events[1] < found.events[0]
    report = {"controllers": replay_controllers, "scheduler": replay_scheduler}[process](
        tmp_path / "small" / process, REGISTRY
    )
    assert report.different == 1, "the failure is the only difference"
    assert report.first is not None
    decided = report.first.recorded or report.first.replayed
    assert decided is not None
    assert found.failure.decision.startswith(
        decided.key if process == "scheduler" else f"{decided.actor} {decided.key}"
    )


def test_a_redacted_journal_of_both_processes_replays_and_has_no_names(journal: Path, tmp_path: Path) -> None:
    ended = run_command("snapshot", "redact", str(journal), str(tmp_path / "out"))
    assert ended.code == 0, ended.err
    assert [line.rpartition(" same ")[0] for line in ended.out.splitlines()[1:]] == [
        "scheduler: replays to the",
        "controllers: replays to the",
    ]
    assert "quiet-task" in texts(journal)
    for name in ("quiet", "hush"):
        assert name not in texts(tmp_path / "out")
    again = run_command("snapshot", "redact", str(journal), str(tmp_path / "out"))
    assert again.code == 2
    assert "exists; give a path that does not" in again.err


def test_shrink_refuses_a_journal_that_does_not_fail_and_a_directory_with_files(journal: Path, tmp_path: Path) -> None:
    ended = run_command("replay", str(journal), "--shrink", str(tmp_path / "small"))
    assert ended.code == 1
    assert "no process of the journal fails: nothing was written" in ended.err
    (tmp_path / "file").write_text("")
    ended = run_command("replay", str(journal), "--shrink", str(tmp_path))
    assert ended.code == 2
    assert "is not empty; give a directory that does not exist yet" in ended.err


def cut(journal: Path, into: Path, part: float) -> bytes:
    """Write a copy whose last segment ends within a line, at that fraction; return the beginning of the line."""
    shutil.copytree(journal, into)
    segment = into / "00000002.jsonl"
    whole = segment.read_bytes()
    end = int(len(whole) * part)
    while whole[end - 1 : end] == b"\n" or whole[end : end + 1] == b"\n":
        end += 1
    segment.write_bytes(whole[:end])
    return whole[:end].rsplit(b"\n", 1)[-1]


@pytest.mark.parametrize("process", REPLAYS)
@pytest.mark.parametrize("part", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
def test_a_journal_cut_off_by_a_crash_replays_up_to_there(
    process: str, part: float, journal: Path, tmp_path: Path
) -> None:
    rest = cut(journal / process, tmp_path / process, part)
    assert rest, "the cut is within a line"
    whole, short = (read_runs(directory / process)[1] for directory in (journal, tmp_path))
    assert short.events == whole.events[: len(short.events)]
    assert len(short.events) < len(whole.events)
    assert REPLAYS[process](tmp_path / process) is None


def test_a_line_broken_in_the_middle_is_named(journal: Path, tmp_path: Path) -> None:
    shutil.copytree(journal / "scheduler", tmp_path / "scheduler")
    segment = tmp_path / "scheduler" / "00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[9] = lines[9][:20] + b"\n"
    segment.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=r"00000001\.jsonl, line 10: not a record"):
        REPLAYS["scheduler"](tmp_path / "scheduler")


def test_no_secret_and_no_environment_is_in_it(journal: Path) -> None:
    written = texts(journal)
    for secret in ("hush", "TOKEN", "aHVzaC1kYXRh", "VC_TASK_INDEX", "PRIVATE KEY", "last-applied"):
        assert secret not in written, secret
    seen = [
        event.obj.metadata.name
        for run in read_runs(journal / "controllers")
        for event in run.events
        if isinstance(event, Observed) and event.resource == kinds.SECRET.resource
    ]
    assert {"quiet-ssh", "kept"} <= set(seen), "that the Secrets exist is in it"


def test_the_timeline_of_a_deleted_or_finished_job_is_in_the_journal(journal: Path) -> None:
    ended = run_command("timeline", "fails", "--journal", str(journal))
    assert ended.code == 0, ended.err
    steps = [line.split("  ")[3].partition("  [")[0] for line in ended.out.splitlines()[1:]]
    wanted = [
        "submitted to queue default: 2 pods (task 2); 2 needed together",
        "2 pods created",
        "policy declared: RestartJob",
        "Running → Restarting, retry 1 of 3",
        "2 pods ended: Succeeded",
        "Running → Completed, retry 1 of 3",
    ]
    assert [step for step in dict.fromkeys(steps) if step in wanted] == wanted
    each = run_command("timeline", "fails", "--journal", str(journal), "--each")
    assert re.search(r"because of #\d+ pod default/fails-task-\d changed: Failed, exit code 3", each.out)
    plain = json.loads(run_command("timeline", "fails", "--journal", str(journal), "-o", "json").out)
    assert plain["source"] == "journal"
    assert all(entry["seq"] > 0 for entry in plain["entries"])


async def test_the_timeline_of_a_job_is_read_from_a_cluster() -> None:
    async with cluster() as c:
        await c.create(job_manifest("job", replicas=2))
        await c.job("job", "Completed")
        options = ("--kubeconfig", str(c.local.kubeconfig))
        ended = await run_aside("timeline", "job", *options)
        unknown = await run_aside("timeline", "jib", *options)
    assert ended.code == 0, ended.err
    for step in ("submitted to queue default: 2 pods", "2 pods created", "2 pods ended: Succeeded", "phase Completed"):
        assert step in ended.out, ended.out
    assert (unknown.code, unknown.out) == (1, "")
    assert "the cluster has no job default/jib; name its namespace with -n" in unknown.err


async def _miscounted() -> None:
    """Run a scenario in which one core is counted without an event."""
    async with cluster() as c:
        await c.create(job_manifest("job"))
        await c.job("job", "Completed")
        columns = c.local.scheduler.scheduler.state.ledger.columns
        columns.block[Quantity.USED, columns.resources["cpu"], 0] += 1000


async def test_state_that_is_not_folded_from_events_is_detected() -> None:
    """The check that stands behind every scenario."""
    with pytest.raises(AssertionError, match=r"differs from the live one at nodes\[0\]\.used\.cpu: .*caused by"):
        await _miscounted()
