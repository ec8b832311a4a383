"""Rows of jobs, queues and nodes, folded from observed objects."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from volcanoio.engine.overview import JobRow, NodeRow, Overview, QueueRow
from volcanoio.framework.events import Change, Observed
from volcanoio.model import kinds, names
from volcanoio.model.kinds import Kind
from volcanoio.model.workloads import QUEUE_PHASE, place_message


def seen(kind: Kind, manifest: dict[str, Any], change: Change = Change.CHANGED) -> Observed:
    """Return the observation of an object."""
    meta = {"uid": f"{kind.plural}/{manifest['metadata']['name']}", **manifest["metadata"]}
    obj = msgspec.convert({**manifest, "metadata": meta}, kind.type)
    return Observed(resource=kind.resource, change=change, object=obj)


def pod(name: str, *, job: str = "train", on: str = "", phase: str = "Pending", cpu: str = "1", **meta: Any) -> Any:
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {names.JOB_NAME: job} if job else {}, **meta},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": phase},
    }


def job(name: str = "train", *, phase: str = "Pending", queue: str = "ml", replicas: int = 2) -> Any:
    spec = {"queue": queue, "minAvailable": replicas, "tasks": [{"name": "t", "replicas": replicas}]}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"state": {"phase": phase}}}


def group(
    owner: str = "train", *, name: str = "train-uid", phase: str = "Pending", queue: str = "ml", **status: Any
) -> Any:
    owners = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": owner, "uid": "u"}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": owners},
        "spec": {"queue": queue, "minMember": 2, "minResources": {"cpu": "2", "count/pods": "2", "requests.cpu": "2"}},
        "status": {"phase": phase, **status},
    }


def queue(name: str = "ml", **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": spec}


def node(name: str = "n1", *, ready: str = "True", **spec: Any) -> Any:
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": ready}]},
    }


class Rows(NamedTuple):
    """Rows that exist."""

    jobs: dict[str, JobRow]
    queues: dict[str, QueueRow]
    nodes: dict[str, NodeRow]


def shown(made: Overview) -> Rows:
    """Return all rows."""
    changes = made.snapshot()
    return Rows(
        {key: row for key, row in changes.jobs.items() if row is not None},
        {key: row for key, row in changes.queues.items() if row is not None},
        {key: row for key, row in changes.nodes.items() if row is not None},
    )


def overview(*events: Observed) -> Overview:
    made = Overview()
    made.fold(events)
    return made


def test_a_pod_counts_in_its_job_queue_and_node_as_it_moves_on() -> None:
    made = overview(
        seen(kinds.QUEUE, queue()), seen(kinds.NODE, node()), seen(kinds.JOB, job()), seen(kinds.POD_GROUP, group())
    )
    made.fold([seen(kinds.POD, pod("a"))])
    rows = shown(made)
    assert (rows.jobs["ns/train"].pending, rows.jobs["ns/train"].waiting) == (1, {"cpu": 1000})
    assert rows.queues["ml"].waiting == {"cpu": 1000}
    made.fold([seen(kinds.POD, pod("a", on="n1"))])
    made.fold([seen(kinds.POD, pod("a", on="n1", phase="Running"))])
    rows = shown(made)
    assert (rows.jobs["ns/train"].pending, rows.jobs["ns/train"].starting, rows.jobs["ns/train"].running) == (0, 0, 1)
    assert (rows.jobs["ns/train"].requested, rows.jobs["ns/train"].waiting) == ({"cpu": 1000}, {})
    assert (rows.queues["ml"].requested, rows.queues["ml"].waiting) == ({"cpu": 1000}, {})
    assert (rows.nodes["n1"].requested, rows.nodes["n1"].pods) == ({"cpu": 1000}, 1)
    made.fold([seen(kinds.POD, pod("a", on="n1", phase="Succeeded"))])
    rows = shown(made)
    assert (rows.jobs["ns/train"].succeeded, rows.jobs["ns/train"].requested) == (1, {})
    assert (rows.nodes["n1"].requested, rows.nodes["n1"].pods) == ({}, 0)
    assert list(made.pods_of("ns/train")) == ["ns/a"]


def test_a_terminating_pod_keeps_its_room_and_a_finished_one_does_not() -> None:
    made = overview(seen(kinds.POD, pod("a", on="n1", phase="Running", deletionTimestamp="2026-01-01T00:00:00Z")))
    row = shown(made).jobs["ns/train"]
    assert (row.running, row.terminating, row.requested) == (0, 1, {"cpu": 1000})
    made.fold([seen(kinds.POD, pod("a", on="n1", phase="Failed", deletionTimestamp="2026-01-01T00:00:00Z"))])
    row = shown(made).jobs["ns/train"]
    assert (row.failed, row.terminating, row.requested) == (1, 0, {})


def test_a_job_is_known_by_its_pod_group_alone() -> None:
    waits = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "m" * 999}
    made = overview(seen(kinds.POD_GROUP, group(conditions=[waits])), seen(kinds.POD, pod("a")))
    row = shown(made).jobs["ns/train"]
    assert (row.kind, row.phase, row.queue, row.min_available, row.reason) == (
        "Job",
        "Pending",
        "ml",
        2,
        "NotEnoughResources",
    )
    assert len(row.message) == 240
    assert row.min_resources == {"cpu": 2000}  # without the names of quotas


def native_group(name: str, queue: str, phase: str) -> Any:
    counted = {"type": QUEUE_PHASE, "status": "True", "reason": phase, "message": place_message(queue, "volcano")}
    waits = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"conditions": [counted, waits] if queue else []},
    }


def test_a_native_group_has_a_row_once_the_scheduler_has_it() -> None:
    """Until then it may be a group of another scheduler, whose pods are not counted."""
    key = "ns/podgroup.scheduling.k8s.io/train"
    member = pod("a", job="")
    member["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    made = overview(
        seen(kinds.QUEUE, queue()),
        seen(kinds.POD, member),
        seen(kinds.NATIVE_POD_GROUP, native_group("train", "", "")),
        seen(kinds.POD_GROUP, group("", name="train")),
    )
    assert list(shown(made).jobs) == ["ns/pg/train"]
    assert made.take_changes().jobs[key] is None
    assert (made.pod_counts(), made.job(key)) == ((0, 0), None)
    made.fold([seen(kinds.NATIVE_POD_GROUP, native_group("train", "ml", "Inqueue"))])
    row = shown(made).jobs[key]
    assert (row.kind, row.name, row.queue, row.phase) == ("PodGroup.scheduling.k8s.io", "train", "ml", "Inqueue")
    assert (row.reason, row.message, row.pending, row.replicas) == ("Unschedulable", "no room", 1, 3)
    assert shown(made).queues["ml"].groups == {"Inqueue": 1, "Pending": 1}
    assert made.pod_counts() == (0, 1)


def test_a_pod_group_without_job_has_a_row_of_its_own() -> None:
    annotations = {names.GROUP_NAME: "lonely"}
    early = seen(kinds.POD, pod("a", job="", annotations=annotations))
    made = overview(early, seen(kinds.POD_GROUP, group("", name="lonely")))
    row = shown(made).jobs["ns/pg/lonely"]
    assert (row.kind, row.name, row.pending, row.replicas) == ("PodGroup", "lonely", 1, 2)
    assert made.job("ns/pg/lonely") is row
    assert made.job("ns/lonely") is None  # it is no Job of that name


def test_what_is_admitted_and_not_placed_is_inqueue() -> None:
    made = overview(seen(kinds.QUEUE, queue()), seen(kinds.POD_GROUP, group(phase="Inqueue")))
    assert shown(made).queues["ml"].inqueue == {"cpu": 2000}
    assert shown(made).queues["ml"].groups == {"Inqueue": 1}
    made.fold([seen(kinds.POD_GROUP, group(phase="Running"))])
    assert shown(made).queues["ml"].inqueue == {}


def test_a_job_that_changes_its_queue_counts_in_the_new_one() -> None:
    made = overview(
        *(seen(kinds.QUEUE, queue(name)) for name in ("ml", "etl")),
        seen(kinds.POD_GROUP, group()),
        seen(kinds.POD, pod("a")),
    )
    made.take_changes()
    made.fold([seen(kinds.POD_GROUP, group(queue="etl"))])
    changes = made.take_changes()
    assert set(changes.queues) == {"ml", "etl"}
    assert (shown(made).queues["ml"].waiting, shown(made).queues["etl"].waiting) == ({}, {"cpu": 1000})


def test_a_deleted_job_is_gone_once_its_pods_are() -> None:
    made = overview(
        seen(kinds.QUEUE, queue()), seen(kinds.JOB, job()), seen(kinds.POD_GROUP, group()), seen(kinds.POD, pod("a"))
    )
    made.fold([seen(kinds.JOB, job(), Change.GONE), seen(kinds.POD_GROUP, group(), Change.GONE)])
    assert shown(made).jobs["ns/train"].pending == 1
    assert shown(made).queues["ml"].waiting == {}
    made.take_changes()
    made.fold([seen(kinds.POD, pod("a"), Change.GONE)])
    changes = made.take_changes()
    assert changes.jobs == {"ns/train": None}
    assert not made.take_changes()


def test_states_of_nodes() -> None:
    taints = [
        {"key": "gpu", "value": "a100", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    made = overview(seen(kinds.NODE, node(ready="Unknown", unschedulable=True, taints=taints)))
    row = shown(made).nodes["n1"]
    assert (row.ready, row.schedulable, row.taints) == (False, False, ("gpu=a100:NoSchedule",))
    made.fold([seen(kinds.NODE, node(), Change.GONE)])
    assert made.take_changes().nodes == {"n1": None}


def test_a_node_that_is_gone_stays_until_its_last_pod_is_gone() -> None:
    made = overview(seen(kinds.NODE, node()), seen(kinds.POD, pod("a", on="n1")), seen(kinds.POD, pod("b", on="n1")))
    made.fold([seen(kinds.NODE, node(), Change.GONE), seen(kinds.POD, pod("a", on="n1", phase="Running"))])
    row = shown(made).nodes["n1"]
    assert (row.ready, row.pods) == (False, 2)
    made.fold([seen(kinds.POD, pod("a", on="n1", phase="Failed"))])
    made.take_changes()
    made.fold([seen(kinds.POD, pod("b", on="n1"), Change.GONE)])
    assert made.take_changes().nodes == {"n1": None}
    assert shown(made).nodes == {}


def test_a_node_that_was_never_seen_has_a_row_while_it_has_pods() -> None:
    made = overview(seen(kinds.POD, pod("a", on="n1")))
    made.fold([seen(kinds.POD, pod("a", on="n1", phase="Running"))])
    assert shown(made).nodes["n1"].pods == 1
    made.fold([seen(kinds.POD, pod("a", on="n1"), Change.GONE)])
    assert shown(made).nodes == {}
    made.fold([seen(kinds.NODE, node()), seen(kinds.POD, pod("a", on="n1"))])
    made.fold([seen(kinds.POD, pod("a", on="n1"), Change.GONE)])
    assert set(shown(made).nodes) == {"n1"}


def test_usage_is_summed_over_the_pods_that_were_measured() -> None:
    made = overview(seen(kinds.QUEUE, queue()), seen(kinds.POD_GROUP, group()), seen(kinds.NODE, node()))
    made.fold([seen(kinds.POD, pod(name, on="n1", phase="Running")) for name in "abc"])
    made.measure({"ns/a": {"cpu": 300}, "ns/b": {"cpu": 100}})
    assert set(made.take_changes().jobs) == {"ns/train"}
    rows = shown(made)
    assert rows.jobs["ns/train"].used == rows.nodes["n1"].used == rows.queues["ml"].used == {"cpu": 400}
    made.measure({})
    assert shown(made).jobs["ns/train"].used is None


def test_after_any_order_of_changes_the_rows_are_those_of_the_objects_that_are_left() -> None:
    """Fold random changes, and compare with a fold of only the final objects."""
    rng = random.Random(7)
    for _ in range(60):
        made, left = overview(seen(kinds.NODE, node("n1")), seen(kinds.NODE, node("n2"))), dict[str, Observed]()
        for _ in range(80):
            event = _random_event(rng)
            uid = event.obj.metadata.uid
            if uid in left and rng.random() < 0.3:
                made.fold([seen_gone(left.pop(uid))])
            else:
                made.fold([event])
                left[uid] = event
        fresh = overview(seen(kinds.NODE, node("n1")), seen(kinds.NODE, node("n2")), *left.values())
        assert _comparable(made) == _comparable(fresh)


def _random_event(rng: random.Random) -> Observed:
    owner, where = rng.choice(["train", "test"]), rng.choice(["ml", "etl"])
    on, phase = rng.choice(["", "n1", "n2"]), rng.choice(["Pending", "Running", "Failed"])
    return rng.choice(
        [
            seen(kinds.POD, pod(rng.choice("abcdef"), on=on, phase=phase, job=owner)),
            seen(kinds.JOB, job(owner)),
            seen(kinds.POD_GROUP, group(owner, name=f"{owner}-uid", queue=where)),
            seen(kinds.QUEUE, queue(where)),
        ]
    )


def seen_gone(event: Observed) -> Observed:
    return Observed(resource=event.resource, change=Change.GONE, object=event.object)


def _comparable(made: Overview) -> Any:
    return msgspec.to_builtins(made.snapshot())
