"""What `volcanoio why` prints for a state in files and for a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run, run_aside
from tests.scenario.cluster.harness import cluster, job_manifest
from tests.scenario.scheduling.harness import group, node, plugins, pod, queue, running
from tests.scenario.simulate.command import Ended, Simulate
from tests.scenario.why.cases import ALLOCATE, FULL, PREEMPT, busy, gang
from volcanoio.cli.offline.state_source import SNAPSHOT_KINDS
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

PAGE = Path(__file__).parents[3] / "docs" / "why-a-job-waits.md"
STATE = [
    *(node(f"n{at}", cpu="4") for at in range(3)),
    queue("default"),
    *busy("nightly", 3, "n0"),
    *busy("report", 2, "n1"),
    *gang(3, name="first", cpu="4"),
    *gang(3, name="train", cpu="2"),
    group("owned", 9, phase="Inqueue"),
    pod("alone", cpu="1"),
    pod("foreign", "another", cpu="1", spec={"schedulerName": "default-scheduler"}),
    group("another", 1),
    pod("failed", phase="Failed", cpu="1"),
    pod("there", on="n1", phase="Running", cpu="1", spec={"schedulerName": "default-scheduler"}),
]
for at, owner in ((-6, "big"), (-3, "elsewhere")):
    STATE[at]["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": owner, "uid": "u", "controller": True}
    ]


def _ask(why: Simulate, *words: str, state: list[Manifest] = STATE, conf: str = ALLOCATE) -> Ended:
    listed = {"apiVersion": "v1", "kind": "List", "items": state}
    files = ("-f", why.file("state.json", json.dumps(listed)), "--conf", why.file("c.conf", conf))
    return why.run(*words, "-n", "ns", *files, "--now", "2026-01-02T00:00:00Z")


def test_the_output_of_the_example_is_the_documented_one(why: Simulate) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert _ask(why, "train").out in page
    assert _ask(why, "queue/default").out in page


def test_the_same_as_json(why: Simulate) -> None:
    found: dict[str, Any] = _ask(why, "train", "-o", "json").json
    assert found["target"] == "ns/train"
    assert found["phase"] == "Inqueue"
    assert found["diagnosis"]["code"] == "Fragmented"
    assert found["diagnosis"]["nodes"] == [{"code": "InsufficientResource", "reason": "Insufficient cpu", "nodes": 3}]
    assert [each["kind"] for each in found["remedies"]] == ["nodes", "resource", "min-available", "end", "end"]
    assert found["isComplete"] is True


def test_remedies_are_left_out_on_request(why: Simulate) -> None:
    said = _ask(why, "train", "--no-remedies").out
    assert "Fragmented" in said
    assert "any one of these" not in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["podgroup/nightly"], "ns/nightly does not wait: it is Running."),
        (["job/big"], "ns/owned waits: pods"),
        (["big"], "ns/owned waits: pods"),
        (["pod/train-1"], "ns/train waits: nodes"),
        (["pod/there"], "ns/there does not wait: it is Running."),
        (["pod/nightly-0"], "ns/nightly-0 does not wait: it is Running."),
        (["pod/failed"], "ns/failed does not wait: it is Failed."),
        (["alone"], "NoPodGroup"),
        (["pod/foreign"], "its schedulerName is default-scheduler, not volcano"),
        (["another"], "OtherScheduler"),
        (["podgroup/another"], "its pods name another scheduler than volcano: set schedulerName in their template"),
        (["job/elsewhere"], "ns/another waits: group"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_names(why: Simulate, words: list[str], expected: str) -> None:
    assert expected in _ask(why, *words).out


@pytest.mark.parametrize(
    ("word", "error"),
    [
        (
            "trains",
            'no job, podgroup, pod or queue "trains" is known to the scheduler in namespace ns; did you mean train?',
        ),
        ("queue/nope", 'no queue "nope" is known to the scheduler'),
        (
            "node/n1",
            '"node" is no kind that waits; valid values: job, pod, podgroup, queue, workload, or the name alone',
        ),
    ],
)
def test_unknown_names(why: Simulate, word: str, error: str) -> None:
    ended = _ask(why, word)
    assert ended.code == 2
    assert error in ended.err


def test_a_job_that_a_scheduler_would_place_now(why: Simulate) -> None:
    said = _ask(why, "free", state=[node("n1"), *gang(2, name="free")]).out
    assert said.startswith("ns/free need not wait: a scheduling cycle places 2 pods of it now.\n")


def test_a_group_that_a_scheduler_would_admit_now(why: Simulate) -> None:
    state = [node("n1"), group("free", 2)]
    said = _ask(why, "free", state=state).out
    assert _ask(why, "free", "--no-remedies", state=state).out == said
    assert said.startswith("ns/free need not wait: a scheduling cycle admits it now; its pods do not exist yet.\n")


def test_a_running_job_whose_pods_a_cycle_would_evict(why: Simulate) -> None:
    said = _ask(why, "old", state=FULL, conf=PREEMPT).out
    assert said == "ns/old does not wait: it is Running. A scheduling cycle evicts 2 pods of it now.\n"


def test_a_job_whose_victims_end(why: Simulate) -> None:
    said = _ask(why, "urgent", state=FULL, conf=PREEMPT).out
    assert "WaitingForVictims" in said
    assert "2 needed together, 0 placed, 2 pending" in said
    assert said.endswith(
        "\nNothing has to change: it is placed when the pods that end or are evicted for it are gone.\n"
    )


def test_pods_beyond_the_minimum(why: Simulate) -> None:
    state = [node("n1", cpu="2"), *gang(1, 4, name="wide")]
    assert "One more of its pods is placed after any one of these" in _ask(why, "wide", state=state).out


def test_the_amounts_of_a_queue_are_those_of_the_state(why: Simulate) -> None:
    state = [node("n1"), queue("default"), *busy("old", 1, "n1"), *gang(2, name="free")]
    said = _ask(why, "queue/default", state=state).out
    assert "allocated   cpu 1, pods 1" in said
    assert "A scheduling cycle places pods of ns/free now." in said


def test_a_queue_of_which_nothing_is_used(why: Simulate) -> None:
    said = _ask(why, "queue/default", state=[queue("default"), *gang(1)]).out
    assert said.startswith("queue/default is Open; 1 job waiting in it\n\nNO  WAITING")


def test_a_group_without_pods_is_said_to_be_admitted_only(why: Simulate) -> None:
    state = [node("n1", cpu="4"), *running("old", 4, on="n1"), group("old", 4, phase="Running"), queue("default")]
    asked = [*state, group("new", 4, minResources={"cpu": "4"})]
    listed = {"apiVersion": "v1", "kind": "List", "items": asked}
    said = why.run("new", "-n", "ns", "-f", why.file("state.json", json.dumps(listed))).out
    assert "It is admitted (its pods do not exist yet) after any one of these" in said


def test_a_group_without_pods_is_tried_with_those_that_its_job_is_going_to_have(why: Simulate) -> None:
    job = job_manifest("new", replicas=4, cpu="1")
    job["metadata"] |= {"namespace": "ns", "uid": "job-uid"}
    job["spec"]["schedulerName"] = "volcano"
    waiting = group("new-job-uid", 4, minResources={"cpu": "4"})
    waiting["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "new", "uid": "job-uid", "controller": True}
    ]
    state = [node("n1", cpu="4"), *running("old", 4, on="n1"), group("old", 4, phase="Running"), queue("default")]
    listed = {"apiVersion": "v1", "kind": "List", "items": [*state, waiting, job]}
    said = why.run("new", "-n", "ns", "-f", why.file("state.json", json.dumps(listed))).out
    assert "It is placed after any one of these" in said
    assert "the end of ns/old" in said


async def test_a_running_cluster_is_asked_and_saved(tmp_path: Path) -> None:
    async with cluster(speed=0.2) as c:
        manifest = job_manifest("wide", replicas=2, cpu="500")
        manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hush"}]
        await c.create(manifest)
        await c.create(job_manifest("narrow", run="10m"))
        await c.job("wide", "Pending")
        await c.job("narrow", "Running")
        environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
        done = await run_aside("why", "wide", "--offline", program="volcanoio", environment=environment)
        assert done.code == 0, done.err
        assert "default/wide-" in done.out
        assert "ClusterInsufficient" in done.out
        assert "Volcano's default configuration is used" in done.err
        file = str(tmp_path / "state.json")
        saved = await run_aside("snapshot", "save", file, program="volcanoio", environment=environment)
        assert saved.out.endswith("objects; read it with -f of volcanoio simulate and why\n")
        simulated = await run_aside("simulate", program="volcanoio", environment=environment)
        assert "default/wide-" in simulated.out
        unwritable = await run_aside("snapshot", "save", str(tmp_path), program="volcanoio", environment=environment)
        assert "give the path of a file that you may write" in unwritable.err
    content = (tmp_path / "state.json").read_text()
    assert "hush" not in content
    again = run("why", "wide", "-f", file)
    assert "ClusterInsufficient" in again.out


@pytest.mark.parametrize("plugin", sorted(plugins()))
def test_a_snapshot_has_what_the_plugin_reads(plugin: str) -> None:
    needed = {"extender": {"extender.urlPrefix": "http://127.0.0.1:1"}}
    arguments = json.dumps(needed.get(plugin, {}))
    conf = f"actions: allocate\ntiers:\n- plugins: [{{name: {plugin}, arguments: {arguments}}}]\n"
    simulator = Simulator(SimulateOptions(files=(), configuration=conf, ignore_unavailable=True))
    assert simulator.reads <= {*SNAPSHOT_KINDS, kinds.CONFIG_MAP}
