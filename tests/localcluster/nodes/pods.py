"""Pods for the tests of the nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.localcluster.nodes.pods.behaviour import behaviour_of
from volcanoio.localcluster.nodes.pods.lifecycle import accept
from volcanoio.localcluster.nodes.pods.podrun import PodRun, RunContext
from volcanoio.localcluster.nodes.pods.status import status_of
from volcanoio.model import names
from volcanoio.model.core import Pod

T0 = 1_800_000_000.0


def manifest(name: str = "p", **changes: Any) -> dict[str, Any]:
    """A pod bound to node-0 that runs four seconds; `changes` are annotations= or fields of its spec."""
    annotations = {names.RUN_DURATION: "4s", **changes.pop("annotations", {})}
    container = {"name": "main", "image": "busybox", **changes.pop("container", {})}
    spec = {"nodeName": "node-0", "restartPolicy": "Never", "containers": [container], **changes}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def pod(name: str = "p", **changes: Any) -> Pod:
    return msgspec.convert(manifest(name, **changes), Pod)


def run_of(subject: Pod, **options: Any) -> PodRun:
    has_volumes = options.pop("has_volumes", False)
    return accept(subject, behaviour_of(subject, seed=0), T0, RunContext(**options), has_volumes=has_volumes)


def stored(run: PodRun) -> Pod:
    """The pod as the API server has it after its status was written."""
    whole = {**msgspec.to_builtins(run.pod), "status": status_of(run)}
    decoded: Pod = msgspec.json.decode(msgspec.json.encode(whole), type=Pod)
    return decoded
