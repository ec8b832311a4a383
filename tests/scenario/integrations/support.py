"""Objects of config/examples/integrations in a cluster: kinds of operators, and gangs that wait for room as a whole."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import partial
from typing import Any

from tests.scenario.cluster.harness import Cluster, cluster
from volcanoio.localcluster.clock import JumpingClock
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.custom import custom_kind
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path
from volcanoio.model.scheduling import PodGroup
from volcanoio.testing import DEFINITION

CLUSTER_WIDE = {"ClusterTrainingRuntime"}
OCCUPANT = "occupant"
LONG = "1h"
"""How long pods run; a test of a busy machine has enough time to look at them."""


def manifests(*parts: str) -> list[Manifest]:
    """The objects of a file of config/examples/integrations, whose pods run longer than a test looks at them."""
    return [_lasting(each) for each in read_manifests(config_path("examples", "integrations", *parts))]


async def example(c: Cluster, file: str) -> None:
    """Create the objects of a file of config/examples, whose pods run longer, too."""
    for obj in _lasting(read_manifests(config_path("examples", file))):
        await create(c, obj)


def _lasting(value: Any) -> Any:
    """A part of a manifest with longer runs; time jumps to their end (see `unhurried`)."""
    if isinstance(value, dict):
        return {
            key: LONG if key == names.RUN_DURATION and inner != "never" else _lasting(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_lasting(inner) for inner in value]
    if isinstance(value, str):  # the manifest in a template of Argo
        return value.replace(f"{names.RUN_DURATION}: 30s", f"{names.RUN_DURATION}: {LONG}")
    return value


def manifest(*parts: str, kind: str = "Job") -> Manifest:
    """The one object of a kind in a file."""
    (found,) = (each for each in manifests(*parts) if each["kind"] == kind)
    return found


def kind_of(obj: Manifest) -> Kind:
    """The kind of an object, also of one that volcanoio does not have."""
    group, _, version = obj["apiVersion"].rpartition("/")
    known = kinds.named(obj["apiVersion"], obj["kind"])
    return known or custom_kind(group, version, obj["kind"], namespaced=obj["kind"] not in CLUSTER_WIDE)


async def define(c: Cluster, *objects: Manifest) -> None:
    """Install the definitions of an operator's kinds, as its chart does."""
    for kind in {kind_of(each) for each in objects}:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
        scope = "Namespaced" if kind.namespaced else "Cluster"
        called = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()}
        spec = {"group": kind.group, "scope": scope, "names": called, "versions": [version]}
        name = f"{kind.plural}.{kind.group}"
        approved = {"api-approved.kubernetes.io": "https://example.com"}  # Kubernetes' own groups need one
        await c.client.create(DEFINITION, {"metadata": {"name": name, "annotations": approved}, "spec": spec})
        await c.until(DEFINITION, DEFINITION.type, partial(_is_served, name), f"{name} is served")


def _is_served(name: str, definitions: dict[str, Any]) -> bool:
    conditions = definitions[name].status.get("conditions", ())
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def create(c: Cluster, obj: Manifest) -> Manifest:
    """Create one object of any kind, in `default`."""
    kind = kind_of(obj)
    return await c.client.create(kind, obj, namespace="default" if kind.namespaced else "")


async def create_all(c: Cluster, *parts: str) -> list[Manifest]:
    """Create the objects of a file in their order."""
    return [await create(c, each) for each in manifests(*parts)]


def owned_by(owner: Manifest) -> Manifest:
    """The reference of a controller to what it creates for an object."""
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return {**named, "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}


def cpus(number: int) -> dict[str, Any]:
    """Options of a cluster with so many CPUs on one node, and enough of everything else."""
    return {"nodes": 1, "node_resources": f"cpu={number},memory=200Gi,pods=100,ephemeral-storage=100Gi"}


@asynccontextmanager
async def unhurried(**options: Any) -> AsyncIterator[Cluster]:
    """Start a cluster whose pods do not end while a test looks at them, until `completed`: then no wait takes time."""
    async with cluster(speed=math.inf, schedule_period=0.1, **options) as c:
        _clock(c).holds.append(_looked_at)
        yield c


def _looked_at() -> bool:
    return True


async def completed(c: Cluster, name: str) -> Job:
    """Let time jump from event to event, and return the Job once it is Completed."""
    hurry(c)
    return await c.job(name, "Completed")


def hurry(c: Cluster) -> None:
    """Let time jump from event to event."""
    _clock(c).holds.remove(_looked_at)


def _clock(c: Cluster) -> JumpingClock:
    assert isinstance(c.local.clock, JumpingClock)
    return c.local.clock


async def group(c: Cluster, prefix: str, holds: Callable[[PodGroup], bool], what: str) -> PodGroup:
    """The PodGroup whose name begins so, once a condition holds. There is one of that name, not several."""

    def those(all_: dict[str, PodGroup]) -> list[PodGroup]:
        return [each for name, each in all_.items() if name.startswith(prefix)]

    found = await c.until(
        kinds.POD_GROUP, PodGroup, lambda all_: any(holds(each) for each in those(all_)), f"podgroup {prefix} {what}"
    )
    (one,) = those(found)
    return one


def is_unschedulable(found: PodGroup) -> bool:
    """Whether the scheduler reports that a PodGroup waits."""
    return any(one.type == "Unschedulable" and one.status == "True" for one in found.status.conditions)


async def members(c: Cluster, found: PodGroup) -> list[Pod]:
    """The pods of a PodGroup."""
    return [pod for pod in await c.pods() if pod.metadata.annotations.get(names.GROUP_NAME) == found.metadata.name]


async def running(c: Cluster, number: int, **labels: str) -> None:
    """Wait until so many pods with these labels run."""

    def those(all_: dict[str, Pod]) -> int:
        return sum(
            pod.status.phase == "Running" and labels.items() <= pod.metadata.labels.items() for pod in all_.values()
        )

    await c.until(kinds.POD, Pod, lambda all_: those(all_) == number, f"{number} of {labels} running")


def amounts(resources: Mapping[str, Any] | None) -> dict[str, Fraction]:
    """Resources as numbers."""
    return {name: quantity.parse(str(text)) for name, text in (resources or {}).items()}


async def starts_as_a_whole(
    c: Cluster, submit: Callable[[], Awaitable[object]], prefix: str, minimum: int, taken: int = 1
) -> PodGroup:
    """Submit a gang to a cluster in which CPUs are taken, and free them: nothing is placed before, all of it after."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(taken)}}}
    metadata = {"name": OCCUPANT, "annotations": {names.RUN_DURATION: "never"}}
    await create(c, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    await c.until(kinds.POD, Pod, lambda all_: all_[OCCUPANT].status.phase == "Running", "the occupant runs")
    await submit()
    waiting = await group(c, prefix, is_unschedulable, "waits")
    assert [pod.metadata.name for pod in await members(c, waiting) if pod.spec.node_name] == []
    await c.client.delete(kinds.POD, OCCUPANT, "default")
    running = await group(c, prefix, lambda one: one.status.running >= minimum, f"has {minimum} running")
    assert running.metadata.uid == waiting.metadata.uid
    return running
