"""A whole local cluster under test, driven as a user drives it: over HTTPS, with the kubeconfig it wrote.

The overcommit alarm is on in every scenario: a pod that a node had to refuse fails the test. So is the journal: after
the scenario the recorded events must fold to the state that was live, and replay to the decisions that were made.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

from tests.scenario.cluster.journals import JournalledCluster, verify
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.kube import kubeconfig
from volcanoio.kube.client import Client
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.localcluster.apiserver.http.faults import Faults
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Event, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path
from volcanoio.model.scheduling import PodGroup, Queue

Object = TypeVar("Object", bound=ApiObject)
PATIENCE = 40.0


class Cluster:
    """The cluster and a client of it."""

    def __init__(self, local: LocalCluster, client: Client) -> None:
        self.local = local
        self.client = client

    async def create(self, manifest: Manifest) -> Manifest:
        """Create one object in its namespace or `default`."""
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None, manifest["kind"]
        namespace = manifest["metadata"].get("namespace", "default") if kind.namespaced else ""
        return await self.client.create(kind, manifest, namespace=namespace)

    async def example(self, *files: str) -> list[Manifest]:
        """Create the objects of files of config/examples."""
        return [await self.create(each) for file in files for each in read_manifests(config_path("examples", file))]

    async def until(
        self,
        kind: Kind,
        struct: type[Object],
        holds: Callable[[dict[str, Object]], bool],
        what: str,
        namespace: str = "default",
    ) -> dict[str, Object]:
        """Watch a kind (in `namespace`, or cluster-wide) until `holds(objects by name)`; `what` is for failures."""
        objects: dict[str, Object] = {}
        namespace = namespace if kind.namespaced else ""
        with anyio.move_on_after(PATIENCE):
            async with self.client.watch(kind, namespace) as changes:
                listed = await self.client.list(kind, namespace)
                found = {obj.metadata.name: obj for obj in listed if isinstance(obj, struct)}
                if holds(found):  # a watch says nothing where there is nothing
                    return found
                async for change in changes:
                    obj = change.object
                    assert isinstance(obj, struct)
                    if change.type == "DELETED":
                        objects.pop(obj.metadata.name, None)
                    else:
                        objects[obj.metadata.name] = obj
                    if holds(objects):
                        return objects
        seen = {name: getattr(obj, "status", None) for name, obj in objects.items()}
        msg = f"never seen: {what}; last seen: {seen}"
        raise AssertionError(msg)

    async def job(self, name: str, phase: str, namespace: str = "default") -> Job:
        """Return the job once it is in a phase."""

        def holds(jobs: dict[str, Job]) -> bool:
            return name in jobs and jobs[name].status.state.phase == phase

        jobs = await self.until(kinds.JOB, Job, holds, f"{name} {phase}", namespace)
        return jobs[name]

    async def group(self, name: str, holds: Callable[[PodGroup], bool], what: str) -> PodGroup:
        """Return a PodGroup once a condition holds."""
        groups = await self.until(
            kinds.POD_GROUP, PodGroup, lambda all_: name in all_ and holds(all_[name]), f"podgroup {name} {what}"
        )
        return groups[name]

    async def queue(self, name: str, holds: Callable[[Queue], bool], what: str) -> Queue:
        """Return a queue once a condition holds."""
        queues = await self.until(
            kinds.QUEUE, Queue, lambda all_: name in all_ and holds(all_[name]), f"queue {name} {what}"
        )
        return queues[name]

    async def pods(self, prefix: str = "") -> list[Pod]:
        """Pods of `default` whose names begin with a prefix, by name."""
        found = await self.client.list(kinds.POD, "default")
        return sorted(
            (pod for pod in found if isinstance(pod, Pod) and pod.metadata.name.startswith(prefix)),
            key=lambda pod: pod.metadata.name,
        )

    async def events(self, name: str, reason: str) -> list[Event]:
        """Events of an object, once there is one of that reason."""

        def matching(all_: dict[str, Event]) -> list[Event]:
            return [each for each in all_.values() if each.involved_object.name == name and each.reason == reason]

        found = await self.until(kinds.EVENT, Event, lambda all_: bool(matching(all_)), f"event {reason} of {name}")
        return matching(found)


@asynccontextmanager
async def cluster(
    *,
    faults: Faults | None = None,
    policies: tuple[LifecyclePolicy, ...] | None = None,
    data: Path | None = None,
    budget: float | None = None,
    **options: Any,
) -> AsyncIterator[Cluster]:
    """Start a cluster; time runs 20 times as fast by default. Its journal is replayed at the end."""
    with tempfile.TemporaryDirectory(prefix="journal-") as journal:
        given = {"speed": 20.0, "data": data, "memory": data is None, "journal": Path(journal), **options}
        local = JournalledCluster(LocalOptions.parse(**given), faults=faults, policies=policies, budget=budget)
        async with local:
            transport = HttpTransport(await kubeconfig.from_file(local.kubeconfig))
            try:
                yield Cluster(local, Client(transport))
                assert local.fleet.overcommitted == [], local.fleet.overcommitted
            finally:
                await transport.aclose()
        verify(local)


def job_manifest(
    name: str,
    *,
    replicas: int = 1,
    minimum: int | None = None,
    cpu: str = "1",
    run: str = "2s",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A Job of one task named `task`."""
    pod = {
        "metadata": {"annotations": {"sim.volcanoio.dev/run-duration": run, **(annotations or {})}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": replicas if minimum is None else minimum,
            "schedulerName": "volcano",
            "tasks": [{"name": "task", "replicas": replicas, "template": pod}],
            **spec,
        },
    }
