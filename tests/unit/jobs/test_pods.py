"""Pods as the job controller builds them."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.jobs.driver import PLUGINS, spec, task
from volcanoio.engine.jobs.pods.manifests import build_pod, mounts, name_suffix
from volcanoio.engine.jobs.pods.plugins import create_plugins
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job


def job(*tasks: Manifest, metadata: Manifest | None = None, **fields: Any) -> Job:
    meta = {"name": "tf", "namespace": "ns", "uid": "u-1", **(metadata or {})}
    manifest = {"metadata": meta, "spec": spec(*tasks, **fields), "status": {"version": 4, "retryCount": 2}}
    return msgspec.convert(manifest, Job)


def build(one: Job, index: int = 1, place: int = 0) -> Manifest:
    return build_pod(one, one.spec.tasks[place], index, mounts(one), create_plugins(one, PLUGINS).plugins)


def test_names_marks_and_owner() -> None:
    template = {
        "metadata": {"name": "ignored", "labels": {"mine": "1"}, "annotations": {"note": "x"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    one = job({"name": "ps", "replicas": 2, "template": template, "topologyPolicy": "best-effort"}, queue="q")
    pod = build(one)
    meta = pod["metadata"]
    assert (pod["kind"], meta["name"], meta["namespace"]) == ("Pod", "tf-ps-1", "ns")
    assert meta["labels"] == {
        "mine": "1",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "ps",
        "volcano.sh/job-name": "tf",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "q",
    }
    assert meta["annotations"] == {
        "note": "x",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "ps",
        "volcano.sh/job-name": "tf",
        "volcano.sh/queue-name": "q",
        "volcano.sh/job-version": "4",
        "volcano.sh/job-retry-count": "2",
        "volcano.sh/template-uid": "tf-ps",
        "volcano.sh/numa-topology-policy": "best-effort",
        "scheduling.k8s.io/group-name": "tf-u-1",
    }
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("Job", "u-1", True, True)


def test_scheduler_and_priority_class_of_the_template_win() -> None:
    one = job(task("a", 2), task("b", 2, pod={"schedulerName": "s", "priorityClassName": "p"}), priorityClassName="job")
    assert (build(one)["spec"]["schedulerName"], build(one)["spec"]["priorityClassName"]) == ("volcano", "job")
    other = build(one, place=1)["spec"]
    assert (other["schedulerName"], other["priorityClassName"]) == ("s", "p")


def test_fields_copied_from_the_job() -> None:
    annotations = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/revocable-zone": "*",
        "volcano.sh/jdb-max-unavailable": "2",
        "volcano.sh/jdb-min-available": "1",
        "other": "stays",
    }
    metadata = {"annotations": annotations, "labels": {"volcano.sh/cooldown-time": "5s", "x": "y"}}
    meta = build(job(task(), metadata=metadata))["metadata"]
    assert meta["annotations"]["volcano.sh/preemptable"] == "true"
    assert meta["annotations"]["volcano.sh/jdb-min-available"] == "1"
    assert "volcano.sh/jdb-max-unavailable" not in meta["annotations"]
    assert "other" not in meta["annotations"]
    assert meta["labels"]["volcano.sh/cooldown-time"] == "5s"
    assert "x" not in meta["labels"]


def test_partitions() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2}
    one = job(task("a", 4, partitionPolicy=parts))
    assert [build(one, index)["metadata"]["labels"]["volcano.sh/partition-id"] for index in range(4)] == [*"0011"]


def test_volumes_are_mounted_in_containers_only_and_named_by_a_hash() -> None:
    containers = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}
    claim = {"mountPath": "/a", "volumeClaimName": "data"}
    volumes = [{"mountPath": "/myinput"}, claim, {**claim, "mountPath": "/b"}]
    one = job(task("a", 1, pod=containers), volumes=volumes)
    pod = build(one)["spec"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/myinput", "/a"]
    assert "volumeMounts" not in pod["initContainers"][0]
    assert [volume["name"] for volume in pod["volumes"]] == [
        f"tf-{name_suffix(one, path)}" for path in ("/myinput", "/a")
    ]
    assert len(name_suffix(one, "/a")) == 12
    assert build(one) == build(one)


def test_the_template_is_not_changed() -> None:
    one = job(task(), plugins={"svc": [], "ssh": [], "env": []})
    before = msgspec.json.encode(one)
    build(one)
    assert msgspec.json.encode(one) == before
