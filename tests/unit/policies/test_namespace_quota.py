"""Quota of a namespace under any order of questions: cap respected, gangs complete, no job starves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_policies.namespace_quota import NamespaceQuota

from tests.examples import examples
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.decisions import Abstain, Decision, Hold
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyContext, PolicyEvent
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod, PriorityClass
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.policies.indexes import ObjectIndexes

CAP = 6


@dataclass
class Line:
    """A namespace whose jobs are asked about, as the controller would."""

    policy: NamespaceQuota = field(default_factory=lambda: NamespaceQuota({"namespaces": {"ns": {"pods": CAP}}}))
    jobs: dict[str, Job] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)

    def submit(self, replicas: int, gang: int, high: bool) -> None:
        name = f"j{len(self.jobs):03d}"
        task = {"name": "t", "replicas": replicas, "template": {"spec": {"containers": [{"name": "c"}]}}}
        manifest = {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": name},
            "spec": {"minAvailable": gang, "tasks": [task], "priorityClassName": "high" if high else ""},
            "status": {"state": {"phase": "Pending"}},
        }
        self.jobs[name] = msgspec.convert(manifest, Job)

    def due(self, name: str) -> tuple[int, ...]:
        replicas = self.jobs[name].spec.tasks[0].replicas
        return tuple(index for index in range(replicas) if f"{name}-{index}" not in self.pods)

    def ask(self, name: str) -> Decision:
        """Ask one question and apply the answer."""
        due = self.due(name)
        if name in self.over or (name in self.groups and not due):
            return Abstain()
        decision = self._decision(name, due)
        through = (
            len(due)
            if isinstance(decision, Abstain)
            else decision.pods.get("t", 0)
            if isinstance(decision, Hold)
            else 0
        )
        if name not in self.groups:
            if through:
                self._add_group(name)
            return decision
        before = len(self._live(name))
        for index in due[:through]:
            self._add_pod(name, index)
        if before == 0 and through:
            assert len(self._live(name)) >= self.jobs[name].spec.min_available, "a gang is made whole"
        return decision

    def finish(self, name: str) -> None:
        """Finish the job: its pods end."""
        self.over.add(name)
        job = self.jobs[name]
        state = msgspec.structs.replace(job.status.state, phase="Completed")
        self.jobs[name] = msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, state=state))
        self.pods = {key: pod for key, pod in self.pods.items() if pod.metadata.annotations.get("job") != name}
        self.groups.pop(name, None)

    def _live(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.metadata.annotations.get("job") == name]

    def _owned(self, name: str, job: str) -> dict[str, Any]:
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": job, "controller": True}
        marks = {names.JOB_VERSION: "0", names.TASK_SPEC: "t", "job": job}
        return {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner], "annotations": marks}

    def _add_group(self, job: str) -> None:
        self.groups[job] = msgspec.convert({"metadata": self._owned(f"{job}-{job}", job)}, PodGroup)

    def _add_pod(self, job: str, index: int) -> None:
        name = f"{job}-{index}"
        manifest = {
            "metadata": self._owned(name, job),
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        }
        self.pods[name] = msgspec.convert(manifest, Pod)

    def bare(self, number: int) -> None:
        """Pods that belong to no job."""
        for index in range(number):
            spec = {"containers": [{"name": "c"}]}
            manifest = {"metadata": {"name": f"bare{index}", "namespace": "ns", "uid": f"bare{index}"}, "spec": spec}
            self.pods[f"bare{index}"] = msgspec.convert(manifest, Pod)

    def fail(self, job: str) -> None:
        """Let all pods of the job fail, which the controller has not handled yet."""
        for name, pod in self.pods.items():
            if pod.metadata.annotations.get("job") == job:
                self.pods[name] = msgspec.structs.replace(
                    pod, status=msgspec.structs.replace(pod.status, phase="Failed")
                )

    def set_status(self, job: str, phase: str = "Running", **entries: str) -> None:
        """Let the status of the job count its failed pods."""
        failed = sum(pod.status.phase == "Failed" for pod in self._live(job))
        status = self.jobs[job].status
        state = msgspec.structs.replace(status.state, phase=phase)
        status = msgspec.structs.replace(status, state=state, failed=failed, controlled_resources=entries)
        self.jobs[job] = msgspec.structs.replace(self.jobs[job], status=status)

    def lose(self, job: str) -> None:
        """Remove the job's pods; those without a job if it is ""."""
        self.pods = {name: pod for name, pod in self.pods.items() if pod.metadata.annotations.get("job", "") != job}

    def taken(self) -> int:
        """Pods that have not ended."""
        return sum(pod.status.phase != "Failed" for pod in self.pods.values())

    def make(self, job: str) -> None:
        """Ask until the job has its pods."""
        while self.due(job):
            assert isinstance(self.ask(job), Abstain)

    def _decision(self, name: str, due: tuple[int, ...]) -> Decision:
        indexes = ObjectIndexes()
        indexes.add("jobs.batch.volcano.sh", self.jobs.values())
        indexes.add("podgroups.scheduling.volcano.sh", self.groups.values())
        indexes.add("pods", self.pods.values())
        high = msgspec.convert({"metadata": {"name": "high"}, "value": 9}, PriorityClass)
        indexes.add("priorityclasses.scheduling.k8s.io", [high])
        event = LifecycleEvent(name=PolicyEvent.PODS_DUE, job_uid=name, version=0, due={"t": due})
        views = indexes.view(NamespaceQuota.indexes)
        call = self.policy.decide(PolicyContext(event=event, job=self.jobs[name], pods=(), now=0.0, indexes=views))
        with pytest.raises(StopIteration) as end:
            call.send(None)
        decision: Decision = end.value.value
        return decision


steps = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 8), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("ask"), st.integers(0, 30)),
    st.tuples(st.just("finish"), st.integers(0, 30)),
    st.tuples(st.just("fail"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("lose"), st.integers(0, 30)),
    st.tuples(st.just("bare"), st.integers(0, CAP)),
    st.tuples(st.just("restart")),
)


@examples(150)
@given(st.lists(steps, max_size=60))
def test_the_cap_holds_gangs_are_whole_and_fitting_jobs_are_admitted(history: list[tuple[Any, ...]]) -> None:
    line = Line()
    for step in history:
        known = list(line.jobs)
        match step:
            case ("submit", replicas, gang, high):
                line.submit(replicas, min(gang, replicas), high)
            case ("ask", number) if known:
                line.ask(known[number % len(known)])
            case ("finish", number) if known:
                name = known[number % len(known)]
                if line._live(name):
                    line.finish(name)
            case ("fail", number, handled) if known:
                line.fail(known[number % len(known)])
                if handled:
                    line.set_status(known[number % len(known)])
            case ("lose", number) if known:
                line.lose(known[number % len(known)])
                line.set_status(known[number % len(known)])
            case ("bare", number):
                line.lose("")
                line.bare(min(number, CAP - line.taken()))
            case ("restart",):
                line.policy = Line().policy
        assert line.taken() <= CAP
    line.lose("")
    for _ in range(3 * len(line.jobs) + 3):  # everybody is asked until nothing moves, and what runs ends
        for name in line.jobs:
            line.ask(name)
        running = [name for name in line.jobs if line._live(name) and name not in line.over]
        if running:
            line.finish(running[0])
    left = [name for name in line.jobs if name not in line.over]
    assert all(line.jobs[name].spec.min_available > CAP for name in left), left


def full() -> Line:
    """A line whose first job has as many pods as the namespace may."""
    line = Line()
    line.submit(CAP, CAP, high=False)
    line.make("j000")
    return line


def place(decision: Decision) -> str:
    """Return the position of a held job."""
    assert isinstance(decision, Hold)
    return decision.reason.partition(", place ")[2].partition(" ")[0]


def test_priority_goes_before_age_and_age_before_all_else() -> None:
    line = full()
    for high in (False, False, True):
        line.submit(2, 2, high)
    first = [place(line.ask(name)) for name in ("j001", "j002", "j003")]
    assert first == ["1", "2", "1"]
    assert [place(line.ask(name)) for name in ("j001", "j002", "j003")] == ["2", "3", "1"]


def test_pods_beyond_a_gang_wait_behind_those_in_line() -> None:
    line = Line()
    for replicas, gang in ((4, 4), (1, 1), (2, 1)):
        line.submit(replicas, gang, high=False)
        line.ask(f"j00{len(line.jobs) - 1}")
        line.ask(f"j00{len(line.jobs) - 1}")
    assert [len(line._live(name)) for name in line.jobs] == [4, 1, 1]
    line.finish("j001")
    line.submit(3, 3, high=True)
    assert place(line.ask("j003")) == "1"
    line.ask("j002")
    assert len(line._live("j002")) == 1, "there is room for its second pod, but who waits goes first"


def test_nominations_of_a_job_before_its_restart_are_void() -> None:
    line = Line()
    line.submit(CAP, CAP, high=False)
    line.submit(1, 1, high=False)
    assert isinstance(line.ask("j000"), Abstain)
    line.groups.clear()
    job = line.jobs["j000"]
    line.jobs["j000"] = msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, version=1))
    assert isinstance(line.ask("j001"), Abstain)


def test_a_failed_pod_keeps_its_quota_until_it_is_handled() -> None:
    line = full()
    line.submit(1, 1, high=True)
    line.fail("j000")
    assert place(line.ask("j001")) == "1", "no decision about the failed pods exists yet"
    line.set_status("j000", "Restarting")
    assert place(line.ask("j001")) == "1"
    line.set_status("j000", **{names.PENDING_ACTION: "[]"})
    assert place(line.ask("j001")) == "1", "a restart waits for its time"
    line.lose("j000")
    line.set_status("j000", "Pending")
    assert place(line.ask("j001")) == "1"
    line.make("j000")
    line.fail("j000")
    line.set_status("j000")
    assert isinstance(line.ask("j001"), Abstain), "they stay as they are, and take nothing"


def test_changes_of_a_job_that_wake_the_first_in_line() -> None:
    line = full()
    line.submit(1, 1, high=False)
    decision = line.ask("j001")
    assert isinstance(decision, Hold)
    assert {wake.resource for wake in decision.wake} == {
        "pods",
        "jobs.batch.volcano.sh",
        "podgroups.scheduling.volcano.sh",
    }


def test_a_held_job_without_reservation_blocks_no_other() -> None:
    line = Line()
    line.submit(4, 4, high=False)
    assert isinstance(line.ask("j000"), Abstain)
    line.groups.clear()
    line.bare(3)
    assert place(line.ask("j000")) == "1", "somebody else was quicker"
    line.submit(3, 3, high=True)
    line.make("j001")


def test_gangs_that_lost_their_pods_do_not_wait_for_each_other() -> None:
    line = Line()
    for name in ("j000", "j001"):
        line.submit(3, 3, high=False)
        line.make(name)
    line.submit(1, 1, high=True)
    for name in ("j000", "j001"):
        line.lose(name)
    line.bare(3)
    assert place(line.ask("j002")) == "1"
    assert place(line.ask("j001")) == "1", "there is room for one of them: the older one"
    line.make("j000")
    waits = line.ask("j001")
    assert isinstance(waits, Hold)
    assert "pods" in {wake.resource for wake in waits.wake}, "it was let in before: room is all it waits for"
    line.finish("j000")
    line.make("j001")


def test_caps_that_make_no_sense_are_reported() -> None:
    with pytest.raises(ArgumentError, match="namespaces\": team: 'many' is not a quantity"):
        NamespaceQuota({"namespaces": {"team": {"cpu": "many"}}})
    with pytest.raises(ArgumentError):
        NamespaceQuota({})
