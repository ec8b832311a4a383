"""Users of one queue, each with a namespace of their own, whose pods run for a time and finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.names import FAIRSHARE_WEIGHT
from volcanoio.model.packaged import config_path

MULTI_TENANT = Path(config_path("scheduler", "multi-tenant.conf")).read_text(encoding="utf-8")


class Users(World):
    """A world of jobs with one pod, created as by the controllers: the PodGroup first, the pod once it is Inqueue."""

    def __init__(self, *objects: dict[str, Any], cpu: int = 20, conf: str = MULTI_TENANT, period: float = 1.0) -> None:
        super().__init__(node("n1", cpu=str(cpu), memory="1Ti", pods="1000"), *objects, conf=conf, period=period)
        self.seconds_of: dict[str, float] = {}
        """Seconds that the pod of each waiting job will run, by the job's key."""
        self.cpu_of: dict[str, str] = {}
        self.ends: dict[str, float] = {}
        self.submitted = 0

    def submit(self, user: str, count: int, *, lasting: float = 10, cpu: str = "1") -> None:
        """Submit `count` jobs of one pod that runs `lasting` seconds."""
        for _ in range(count):
            self.submitted += 1
            name = f"{user}-{self.submitted:05}"
            self.seconds_of[f"{user}/{name}"], self.cpu_of[f"{user}/{name}"] = lasting, cpu
            self.put(in_namespace(user, group(name, 1, minResources={"cpu": cpu, "memory": "1Gi"})))

    def period_passes(self) -> None:
        """Remove finished pods, create the pods of enqueued jobs, and run a cycle."""
        for key in [key for key, end in self.ends.items() if end <= self.now]:
            del self.ends[key]
            self.remove(kinds.POD, key)
            self.remove(kinds.POD_GROUP, key)
        for key in list(self.seconds_of):
            user, _, name = key.partition("/")
            job = self.state.ledger.jobs.get(key)
            if job is not None and job.phase != "Pending" and not job.members:
                self.put(in_namespace(user, pod(name, name, cpu=self.cpu_of[key], memory="1Gi")))
        self.cycle()
        for decision in self.last:
            self.carry_out(decision)
            if isinstance(decision, BindBatch):
                for bind in decision.binds:
                    key = f"{bind.namespace}/{bind.name}"
                    self.ends[key] = self.now + self.seconds_of.pop(key)
                    bound = cast("Pod", self.objects[kinds.POD.resource, key])
                    status = msgspec.structs.replace(bound.status, phase="Running")
                    self.put(msgspec.structs.replace(bound, status=status))

    def seconds(self, count: int) -> Users:
        """Let `count` seconds pass."""
        for _ in range(int(count / self.period)):
            self.period_passes()
        return self

    @property
    def running(self) -> Counter[str]:
        """Number of running pods of each user."""
        return Counter(key.partition("/")[0] for key in self.ends)


def in_namespace(user: str, manifest: dict[str, Any]) -> dict[str, Any]:
    meta = {**manifest["metadata"], "namespace": user, "uid": f"{user}-{manifest['metadata']['name']}"}
    return {**manifest, "metadata": meta}


def namespace(name: str, weight: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": f"namespace-{name}", "annotations": {FAIRSHARE_WEIGHT: weight}},
    }


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Equal jobs of one pod that a user submits."""

    user: str
    count: int
    lasting: float = 10
    cpu: str = "1"


@dataclass(frozen=True, kw_only=True)
class UsersScenario(Scenario):
    """Jobs that users submit at the same time, and the pods that run later."""

    submitted: Sequence[Jobs]
    cpu: int = 20
    """Number of cores of the only node."""
    seconds: int
    """Time for which the scheduler runs."""
    running: Mapping[str, int]
    """Number of pods of each user that run at the end."""

    def check(self) -> None:
        """Submit the jobs, let the time pass, and compare the running pods."""
        users = Users(*self.cluster, cpu=self.cpu)
        for jobs in self.submitted:
            users.submit(jobs.user, jobs.count, lasting=jobs.lasting, cpu=jobs.cpu)
        assert users.seconds(self.seconds).running == self.running
