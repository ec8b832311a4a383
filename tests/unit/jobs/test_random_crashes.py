"""Random lives of a job, lived twice: once undisturbed, once with the controller killed at random steps."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import examples
from tests.unit.jobs.driver import World, spec, task
from volcanoio.engine.jobs.decide import observations
from volcanoio.engine.jobs.state.stored_state import read_stored
from volcanoio.engine.jobs.status import writes
from volcanoio.model.batch import FINISHED_PHASES
from volcanoio.model.core import Pod
from volcanoio.model.times import epoch

ACTIONS = ["RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "AbortJob"]
EVENTS = ["*", "PodFailed", "PodEvicted", "TaskCompleted", "JobUpdated"]
COMMANDS = ["RestartJob", "AbortJob", "ResumeJob", "TerminateJob", "CompleteJob"]
MAX_RETRY = 3

policies = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
        optional={"timeout": st.sampled_from(["5s", "1m"])},
    ),
    max_size=2,
)
pods = st.integers(0, 3)
kills = st.none() | st.integers(0, 30)


class Lives(RuleBasedStateMachine):
    """`calm` is never killed; `killed` is killed after a number of steps of its reaction. Neither delays counts."""

    rest = (0.0, 0.0)
    """Seconds of rest from counting a pod, and the fewest."""

    def __init__(self) -> None:
        super().__init__()
        self.usual = writes.COUNT_DELAY_PER_POD, writes.MIN_COUNT_DELAY
        writes.COUNT_DELAY_PER_POD, writes.MIN_COUNT_DELAY = self.rest

    def teardown(self) -> None:
        writes.COUNT_DELAY_PER_POD, writes.MIN_COUNT_DELAY = self.usual

    @initialize(policies=policies, graceful=st.booleans(), least=st.integers(1, 3))
    def submit(self, policies: Any, graceful: bool, least: int) -> None:
        self.spec = spec(task(replicas=3, minAvailable=least), policies=policies, maxRetry=MAX_RETRY)
        self.calm, self.killed = World(graceful=graceful), World(graceful=graceful)
        self.seen = (0, 0)
        self.finished = ""
        self._both(lambda world: world.submit(self.spec), None)

    def _both(self, disturbance: Any, killed_after: int | None) -> None:
        for world in (self.calm, self.killed):
            disturbance(world)
        self.calm.run_until_stable()
        if killed_after is not None:
            for _ in range(killed_after):
                self.killed.step()
            self.killed.crash()
        self.killed.run_until_stable()

    def _phase(self, index: int, phase: Any, killed_after: int | None) -> None:
        def disturbance(world: World) -> None:
            pod = world.pods().get(f"job-t-{index}")
            if pod is not None and pod.status.phase not in ("Succeeded", "Failed"):
                world.phase(pod.metadata.name, phase)

        self._both(disturbance, killed_after)

    @rule(killed_after=kills)
    def run_all(self, killed_after: int | None) -> None:
        def disturbance(world: World) -> None:
            for name, pod in world.pods().items():
                if pod.status.phase == "Pending":
                    world.phase(name, "Running")

        self._both(disturbance, killed_after)

    @rule(index=pods, killed_after=kills)
    def fail(self, index: int, killed_after: int | None) -> None:
        self._phase(index, "Failed", killed_after)

    @rule(index=pods, killed_after=kills)
    def succeed(self, index: int, killed_after: int | None) -> None:
        self._phase(index, "Succeeded", killed_after)

    @rule(index=pods, graceful=st.booleans(), killed_after=kills)
    def evict(self, index: int, graceful: bool, killed_after: int | None) -> None:
        self.age()
        self.lose(index, graceful, killed_after)

    def lose(self, index: int, graceful: bool, killed_after: int | None) -> None:
        """Somebody deletes a pod."""
        self._both(lambda world: world.remove("pods", f"default/job-t-{index}", graceful=graceful), killed_after)

    def age(self) -> None:
        """Wait until no pod is new: what vanishes soon is made again more slowly, which a fresh process forgets."""
        self.wait(3)
        while any(
            self.calm.now - epoch_of(pod) <= observations.EARLY_DELETION_WINDOW for pod in self.calm.pods().values()
        ):
            self.wait(3)

    @rule(killed_after=kills)
    def vanish(self, killed_after: int | None) -> None:
        self._both(lambda world: world.vanish(), killed_after)

    @rule(action=st.sampled_from(COMMANDS), killed_after=kills)
    def command(self, action: Any, killed_after: int | None) -> None:
        self._both(lambda world: world.command(action), killed_after)

    @rule(replicas=st.integers(2, 4), killed_after=kills)
    def scale(self, replicas: int, killed_after: int | None) -> None:
        tasks = [{**self.spec["tasks"][0], "replicas": replicas}]
        patch = {"spec": {"tasks": tasks}}
        self._both(lambda world: world.change("jobs.batch.volcano.sh", "default/job", patch), killed_after)

    @rule(seconds=st.sampled_from([1, 10, 100]), killed_after=kills)
    def wait(self, seconds: int, killed_after: int | None = None) -> None:
        self._both(lambda world: world.elapse(seconds), killed_after)

    @invariant()
    def counters_only_grow_and_retries_have_a_limit(self) -> None:
        if not hasattr(self, "calm"):
            return
        status = self.killed.job().status
        now = (status.version, status.retry_count)
        assert now[0] >= self.seen[0]
        assert self.seen[1] <= now[1] <= MAX_RETRY
        self.seen = now

    @invariant()
    def a_finished_job_stays_finished(self) -> None:
        if not hasattr(self, "calm"):
            return
        phase = self.killed.job().status.state.phase
        assert not self.finished or phase == self.finished
        self.finished = phase if phase in FINISHED_PHASES else ""

    @invariant()
    def killing_us_changes_nothing(self) -> None:
        if not hasattr(self, "calm"):
            return
        assert outcome(self.killed) == outcome(self.calm)

    @invariant()
    def no_live_pod_of_an_older_version_survives_and_no_name_is_made_twice(self) -> None:
        if not hasattr(self, "calm"):
            return
        version = str(self.killed.job().status.version)
        for pod in self.killed.pods().values():
            if pod.metadata.deletion_timestamp is None and pod.status.phase in ("Pending", "Running"):
                assert pod.metadata.annotations["volcano.sh/job-version"] == version
        assert not self.killed.collisions
        assert not self.calm.collisions


def epoch_of(pod: Pod) -> float:
    """When the pod was created, in epoch seconds."""
    return epoch(pod.metadata.creation_timestamp) or 0.0


def outcome(world: World) -> tuple[object, ...]:
    """Return what must be equal: status counts, delayed actions, pods and their phases, other objects."""
    status = world.job().status
    kept = read_stored(status)
    return (
        [(entry.action, entry.cause, entry.task, entry.pods) for entry in kept.delayed],
        (kept.restart_targets, kept.counted_pods, kept.leaving_pods),
        (status.state.phase, status.version, status.retry_count),
        (status.pending, status.running, status.succeeded, status.failed, status.terminating),
        [(name, pod.status.phase, pod.metadata.deletion_timestamp) for name, pod in sorted(world.pods().items())],
        len(world.names("podgroups.scheduling.volcano.sh")),
        world.names("commands.bus.volcano.sh"),
        sorted(world.timers),
    )


class RestfulLives(Lives):
    """The same of jobs that count now and then: it comes to the same once they have counted."""

    rest = (2.0, 2.0)

    @invariant()
    def killing_us_changes_nothing(self) -> None:
        if hasattr(self, "calm"):
            before = phase_of(self.calm), phase_of(self.killed)
            self.calm.fire("counts")
            self.killed.fire("counts")
            assert before == (phase_of(self.calm), phase_of(self.killed)), "no phase waits for a rest to end"
        super().killing_us_changes_nothing()


@pytest.mark.parametrize("lives", [Lives, RestfulLives])
@pytest.mark.parametrize("killed_after", [None, 0, 1, 2, 8])
def test_a_pod_evicted_while_its_task_restarts_is_no_reason_for_another_restart(
    lives: type[Lives], killed_after: int | None
) -> None:
    life = lives()
    life.submit(policies=[{"event": "*", "action": "RestartTask", "timeout": "5s"}], graceful=True, least=3)
    for index in (0, 0, 2, 1):
        life.wait(3)
        life.lose(index, False, None)
    life.wait(3)
    life.lose(1, True, None)
    life.wait(3)
    assert phase_of(life.calm) == "Restarting"
    life.lose(1, False, killed_after)
    life.killing_us_changes_nothing()
    assert read_stored(life.calm.job().status).delayed == ()
    life.teardown()


def phase_of(world: World) -> str:
    """The job's phase."""
    return str(world.job().status.state.phase)


for lives in (Lives, RestfulLives):
    lives.TestCase.settings = examples(40, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow])
TestLives, TestRestfulLives = Lives.TestCase, RestfulLives.TestCase
