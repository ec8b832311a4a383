"""One scenario's part of the world: its namespace, its jobs, and what they must have come to."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.invariants import GROUP
from tests.realcluster.deployed.world import World

NODES = 6
CPUS_PER_NODE = 8
NODE_RESOURCES = f"cpu={CPUS_PER_NODE},memory=32Gi,pods=110,ephemeral-storage=100Gi,huawei.com/Ascend910=8"


@dataclass(frozen=True)
class Scenario:
    """A namespace of a scenario's own."""

    world: World
    namespace: str

    def job(self, name: str, *, replicas: int, seconds: int = 2, cpu: str = "1", **spec: Any) -> Obj:
        """Return a gang of `replicas` pods that run for `seconds`; `spec` is merged into the Job's."""
        pod = {
            "restartPolicy": "Never",
            "containers": [
                {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
            ],
        }
        metadata = {"annotations": {"sim.volcanoio.dev/run-duration": f"{seconds}s"}}
        task = {"name": "task", "replicas": replicas, "template": {"metadata": metadata, "spec": pod}}
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"schedulerName": "volcano", "minAvailable": replicas, "queue": "default", "tasks": [task], **spec},
        }

    @property
    def cpus(self) -> int:
        """CPUs of all simulated nodes together."""
        return NODES * CPUS_PER_NODE

    def json(self, one: Obj) -> str:
        """Return an object as text."""
        return json.dumps(one)

    def submit(self, *jobs: Obj) -> None:
        """Create jobs in one request each."""
        self.world.apply({"apiVersion": "v1", "kind": "List", "items": list(jobs)}, namespace=self.namespace)

    def command(self, job: str, action: str) -> None:
        """Command a job, as vcctl does: AbortJob suspends it, ResumeJob resumes it."""
        stored = self.world.jobs(self.namespace)[job]
        owner = {"apiVersion": stored["apiVersion"], "kind": "Job", "name": job, "uid": stored["metadata"]["uid"]}
        metadata = {"generateName": f"{job}-", "namespace": self.namespace, "ownerReferences": [owner]}
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": metadata,
            "action": action,
            "target": {**owner, "controller": True},
        }
        self.world.cluster.create(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{self.namespace}/commands", command).ok()

    def running(self, job: str) -> int:
        """Return how many pods of a job run."""
        pods = self.world.pods_of(self.namespace).items()
        return sum(name.startswith(f"{job}-") and pod["status"].get("phase") == "Running" for name, pod in pods)

    def group(self, name: str, *, minimum: int) -> None:
        """Create a PodGroup that is no Job's, as operators do."""
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"minMember": minimum, "queue": "default"},
        }
        self.world.apply(group, namespace=self.namespace)

    def pods(self, group: str, indexes: Iterable[int], *, cpu: str) -> None:
        """Create pods of a PodGroup that run until they are deleted."""
        template = self.job(group, replicas=1, cpu=cpu)["spec"]["tasks"][0]["template"]["spec"]
        annotations = {"scheduling.k8s.io/group-name": group, "sim.volcanoio.dev/run-duration": "never"}
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        for index in indexes:
            metadata = {"name": f"{group}-{index}", "annotations": annotations}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            self.world.cluster.create(path, {**pod, "spec": {**template, "schedulerName": "volcano"}}).ok()

    def bound(self, groups: Collection[str]) -> dict[str, int]:
        """Return how many pods of each of these groups have a node."""
        pods = self.world.pods_of(self.namespace).values()
        named = [pod["metadata"]["annotations"].get(GROUP) for pod in pods if pod["spec"].get("nodeName")]
        return {group: named.count(group) for group in groups}

    def measure(self, what: str, figure: float) -> None:
        """Keep a figure for the record."""
        self.world.measured[what] = round(figure, 1)

    def phases(self) -> dict[str, str]:
        """Return the phase of each job."""
        return self.world.phases(self.namespace)

    def all_in(self, phase: str, count: int, seconds: float = 60) -> None:
        """Wait until there are so many jobs and all are in this phase."""
        self.world.until(
            lambda: (now := self.phases()) and len(now) == count and set(now.values()) == {phase},
            lambda: f"{count} jobs {phase}; they are {self.phases()}",
            seconds,
        )

    def completed_once(self, *jobs: Obj, restarted: Collection[str] = ()) -> None:
        """Check that each job ran each of its pods, and, unless it is in `restarted`, ran none of them twice."""
        stored = self.world.jobs(self.namespace)
        for job in jobs:
            name, spec = job["metadata"]["name"], job["spec"]
            wanted = sum(task["replicas"] for task in spec["tasks"])
            status = stored[name]["status"]
            assert status.get("succeeded") == wanted, (name, status)
            for task in spec["tasks"]:
                for index in range(task["replicas"]):
                    lives = self.world.invariants.lives[(self.namespace, f"{name}-{task['name']}-{index}")]
                    assert lives, f"{name}: its pod {index} was never seen"
                    assert len(lives) == 1 or name in restarted, f"{name}: its pod {index} was made {len(lives)} times"
