"""Random histories of a JobFlow: jobs that end anyhow, users, refusals, deaths at any write; what always holds."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import examples
from tests.unit.flows.flow_objects import flow, part, template
from tests.unit.world import World
from volcanoio.engine.flows.controller import JobFlowController
from volcanoio.engine.flows.state import STATUS_LISTS, phase_of
from volcanoio.model import kinds
from volcanoio.model.flow import JobFlow

TARGETS = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
PHASES = ["Running", "Completed", "Restarting", "Aborted", "Failed", "Terminated"]
names = st.sampled_from(sorted(TARGETS))


class FlowWorlds(RuleBasedStateMachine):
    """Does anything that users, jobs and accidents may do to a JobFlow of a diamond."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World([JobFlowController])
        self.completed: set[str] = set()
        self.removed = 0

    @initialize(policy=st.sampled_from(["retain", "delete", ""]), templates=st.sets(names))
    def create(self, policy: str, templates: set[str]) -> None:
        for name in sorted(templates):
            self.world.put(kinds.JOB_TEMPLATE, template(name))
        parts = [part(name, *targets) for name, targets in TARGETS.items()]
        self.world.put(kinds.JOB_FLOW, flow(*parts, jobRetainPolicy=policy))

    @rule(name=names)
    def a_template_comes(self, name: str) -> None:
        self.world.put(kinds.JOB_TEMPLATE, template(name))

    @rule(name=names, phase=st.sampled_from(PHASES))
    def a_job_enters(self, name: str, phase: str) -> None:
        if f"f-{name}" in self.world.names(kinds.JOB):
            if phase == "Completed":
                self.completed.add(name)
            self.world.phase(f"ns/f-{name}", phase)

    @rule(name=names)
    def somebody_deletes_a_job(self, name: str) -> None:
        if f"f-{name}" in self.world.names(kinds.JOB):
            self.removed += 1
            self.world.remove(kinds.JOB, f"ns/f-{name}")

    @rule(code=st.sampled_from([403, 409, 422, 500]))
    def the_next_write_is_refused(self, code: int) -> None:
        self.world.refuse = [(code, "no")]

    @rule(at=st.integers(1, 4), after=st.booleans())
    def die(self, at: int, after: bool) -> None:
        self.world.dies_at, self.world.after = at, after

    @rule(seconds=st.sampled_from([1.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def nothing_starts_before_its_targets_completed(self) -> None:
        made = {write.removeprefix("create f-") for write in self.world.writes if write.startswith("create")}
        assert all(target in self.completed for name in made for target in TARGETS[name])

    @invariant()
    def a_job_is_made_again_only_after_it_went(self) -> None:
        made = [write for write in self.world.writes if write.startswith("create")]
        assert len(made) - len(set(made)) <= self.removed

    def teardown(self) -> None:
        """When all is quiet the lists say what is there, and the end is the one that the jobs came to."""
        if not self.world.objects:
            return
        self.world.refuse, self.world.dies_at = [], 0
        self.world.wait(200)
        found = self.world.get(kinds.JOB_FLOW, "ns/f")
        assert isinstance(found, JobFlow)
        phase = found.status.state.phase
        jobs = {name: self.world.job(f"ns/{name}") for name in self.world.names(kinds.JOB)}
        if phase == "Succeed" and found.spec.job_retain_policy == "delete":
            assert jobs == {}
            assert len(found.status.completed_jobs) == len(TARGETS)
            return
        for name, job in jobs.items():
            if phase_of(job) in STATUS_LISTS:
                assert name in getattr(found.status, STATUS_LISTS[phase_of(job)])
        if phase not in ("Failed", "Succeed"):
            assert not {phase_of(job) for job in jobs.values()} & {"Failed", "Terminated"}


FlowWorlds.TestCase.settings = examples(60, stateful_step_count=30)
TestFlowWorlds = FlowWorlds.TestCase
