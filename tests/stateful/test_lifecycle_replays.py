"""A journal of random lives replays to the same decisions: all controllers, policies' decisions, endpoints' checks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import rule, run_state_machine_as_test
from volcanoio_policies.declared import Declared
from volcanoio_policies.namespace_quota import NamespaceQuota
from volcanoio_policies.oom_scale_up import OomScaleUp

from tests.examples import examples
from tests.stateful.jobs_world import NAMESPACE, plugins
from tests.stateful.lifecycle_machine import MEMORY, MOMENTS, Lifecycle
from tests.stateful.lifecycle_world import Living
from tests.unit.jobs.driver import spec, task
from volcanoio.bus.journal import read_journal
from volcanoio.bus.records import Codec, Decided, EventRecord
from volcanoio.compose.controllers import default_controllers
from volcanoio.compose.journals.replay import replay_controllers
from volcanoio.framework.decisions import Alert, Annotate, Decision
from volcanoio.framework.effects import CheckEndpoint
from volcanoio.framework.events import Answered
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent
from volcanoio.kube.requests import PatchOptions
from volcanoio.model import kinds
from volcanoio.model.batch import JobEvent
from volcanoio.runtime.controllers.setup import known_kinds

WANTED = {
    *("Act", "Alert", "Annotate", "Abstain", "Hold", "Override"),
    *("CheckEndpoint", "Create", "Delete", "Measure", "Patch", "Record", "StartTimer", "StopTimer"),
    *("cronjob-controller", "gc-controller", "job-controller", "jobflow-controller", "queue-controller"),
}
"""Decisions, effects and actors that must have been among what was replayed."""
PROBE = {"httpGetList": [{"taskName": "a", "path": "/ready", "port": 80}]}


class EveryOther:
    """Endpoints that answer every second time."""

    def __init__(self) -> None:
        self.asked = 0

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Yes or no."""
        del effect
        self.asked += 1
        return (200, "OK") if self.asked % 2 else (503, "not yet")


class Talking:
    """A policy that says something beside."""

    name = "talking"
    events = (PolicyEvent.JOB_ENDED, JobEvent.POD_RUNNING)

    async def decide(self, context: PolicyContext) -> Decision:
        """An alert at the end, an annotation before."""
        if context.event.name == PolicyEvent.JOB_ENDED:
            return Alert(reason="Ended", message=f"{context.job.metadata.name} ended")
        return Annotate(annotations={"talking": context.event.pod})


class Recorded(Lifecycle):
    """The same lives with more controllers and policies, recorded; `seen` are the kinds of decisions and answers."""

    seen: set[str] = set()

    def make(self) -> Living:
        self.directory = Path(tempfile.mkdtemp(prefix="volcanoio-journal-"))
        policies = (
            OomScaleUp(),
            NamespaceQuota({"namespaces": {NAMESPACE: {"pods": 5}}}),
            Talking(),
            Declared(),
        )
        return Living(
            policies=policies, controllers=("*",), journal=self.directory / "controllers", endpoints=EveryOther()
        )

    @rule(moment=MOMENTS, every=st.sampled_from(["@every 7s", "* * * * *"]))
    def a_cron_job(self, moment: float, every: str) -> None:
        template = {"spec": spec(task("a", 1), ttlSecondsAfterFinished=5)}
        manifest = {"metadata": {"name": "cron"}, "spec": {"schedule": every, "jobTemplate": template}}
        self.happen(self.world.user(kinds.CRON_JOB, manifest), moment)

    @rule(moment=MOMENTS)
    def a_flow(self, moment: float) -> None:
        async def doing() -> None:
            for name in ("x", "y"):
                await self.world.user(kinds.JOB_TEMPLATE, {"metadata": {"name": name}, "spec": spec(task("a", 1))})
            flows = [{"name": "x"}, {"name": "y", "dependsOn": {"targets": ["x"], "probe": PROBE}}]
            manifest = {"metadata": {"name": "flow"}, "spec": {"jobRetainPolicy": "delete", "flows": flows}}
            await self.world.user(kinds.JOB_FLOW, manifest)
            await self.world.rest()

        self.happen(doing(), moment)

    def teardown(self) -> None:
        try:
            self.do(self.world.kill())
            self.living.close()
            assert str(replay_controllers(self.directory / "controllers", plugins()).first or "") == ""
            self._note()
        finally:
            shutil.rmtree(self.directory)

    def come_to_rest(self, admit: bool) -> None:
        """Skip the final checks, which other tests make: quotas delay pods and CronJobs create jobs."""
        self.do(self.world.live(2.0))
        if admit:
            self.do(self.world.admit(), 1.0)

    def _note(self) -> None:
        codec = Codec(known_kinds(default_controllers(plugins())))
        for record in read_journal(self.directory / "controllers", codec):
            if isinstance(record, EventRecord) and isinstance(record.event, Answered):
                self.seen.update({type(record.event.decision).__name__})
                self.seen.update(type(aside).__name__ for _, aside in record.event.asides)
            if isinstance(record, Decided):
                self.seen.add(record.actor)
                self.seen.update(effect["effect"] for stage in record.effects for effect in stage)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is closed on the loop: its time is not ours."""

    async def at_once(doing: Callable[[], Any], *_: object, **__: object) -> Any:
        return doing()

    monkeypatch.setattr(anyio.to_thread, "run_sync", at_once)


@pytest.mark.hypothesis
def test_random_lives_replay() -> None:
    run_state_machine_as_test(
        Recorded,
        settings=examples(6, stateful_step_count=30, suppress_health_check=list(HealthCheck), phases=[Phase.generate]),
    )


def test_rare_decisions_are_replayed() -> None:
    Recorded.seen.clear()
    lives = Recorded()
    lives.bound = False
    pod = {"containers": [{"name": "c", "image": "i", "resources": MEMORY}]}
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartPod"}]
    lives.submit("one", spec(task("a", 2, pod=pod), policies=policies, plugins={"svc": []}), 0.5)
    lives.all_go_well()
    lives.be_killed_for_memory(0, 0.5)
    lives.all_go_well()
    lives.fail(0, 1, 0.5)
    lives.all_go_well()
    lives.submit("two", spec(task("a", 4), ttlSecondsAfterFinished=2), 0.5)
    lives.all_go_well()
    for _ in range(2):
        lives.all_succeed(5.0)
        lives.all_go_well()
    lives.a_flow(0.5)
    lives.a_cron_job(0.5, "@every 7s")
    lives.all_go_well()
    address = {"status": {"podIP": "10.0.0.1"}}
    patch = lives.world.client.patch(
        kinds.POD, "flow-x-a-0", address, namespace=NAMESPACE, options=PatchOptions(subresource="status")
    )
    lives.do(patch, 5.0)
    lives.all_succeed(5.0)
    lives.all_go_well()
    lives.world.look()  # the quota's wake among the causes
    lives.teardown()
    assert sorted(WANTED - Recorded.seen) == []
