"""Random histories of queues, PodGroups, Commands, refusals and restarts: what holds once all is quiet."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.examples import examples
from tests.unit.queues.tree import Queues
from volcanoio.engine.queues.controller import COUNT_FIELDS, PHASE_FIELDS
from volcanoio.engine.queues.members import queue_and_phase_of
from volcanoio.model import kinds
from volcanoio.model.kinds import Kind

PARENTS = {"a": "root", "b": "a", "c": "b", "d": "root"}
queues = st.sampled_from(sorted(PARENTS))
phases = st.sampled_from(["", "Pending", "Inqueue", "Running", "Unknown", "Completed"])
groups = st.sampled_from(["g1", "g2", "g3"])
GROUP_KINDS = (kinds.POD_GROUP, kinds.NATIVE_POD_GROUP)
group_kinds = st.sampled_from(GROUP_KINDS)


class QueueWorlds(RuleBasedStateMachine):
    """Does anything that users, the scheduler and accidents may do to queues."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Queues()
        self.world.queue("root", parent="")
        self.number = 0

    @rule(name=queues)
    def create_queue(self, name: str) -> None:
        if (kinds.QUEUE.resource, name) not in self.world.objects:
            self.world.queue(name, parent=PARENTS[name], state="")

    @rule(name=queues)
    def delete_queue(self, name: str) -> None:
        if (kinds.QUEUE.resource, name) in self.world.objects:
            self.world.remove(kinds.QUEUE, name)

    @rule(name=groups, queue=queues, phase=phases)
    def put_group(self, name: str, queue: str, phase: str) -> None:
        self.world.group(name, queue, phase)

    @rule(name=groups, queue=st.sampled_from(["", *sorted(PARENTS)]), phase=phases)
    def put_native_group(self, name: str, queue: str, phase: str) -> None:
        self.world.native_group(name, queue, phase or "Pending")

    @rule(name=groups, kind=group_kinds)
    def remove_group(self, name: str, kind: Kind) -> None:
        if (kind.resource, f"ns/{name}") in self.world.objects:
            self.world.remove(kind, f"ns/{name}")

    @rule(queue=queues, action=st.sampled_from(["OpenQueue", "CloseQueue"]))
    def command(self, queue: str, action: str) -> None:
        self.number += 1
        self.world.command(f"c{self.number}", action, queue)

    @rule(code=st.sampled_from([403, 409, 422, 500, 0]))
    def refuse_the_next_write(self, code: int) -> None:
        if code:
            self.world.refuse = [(code, "refused")]

    @rule()
    def restart(self) -> None:
        """What was on its way is lost with the process."""
        self.world.held = None
        self.world.start()

    @rule(seconds=st.sampled_from([0.1, 1.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule()
    def hold_writes_back(self) -> None:
        if self.world.held is None:
            self.world.held = []

    @rule()
    def let_writes_go(self) -> None:
        self.world.release()

    @rule()
    def be_quiet(self) -> None:
        self.world.refuse = []
        self.world.release()
        self.world.wait(200)
        self.check()

    def teardown(self) -> None:
        self.be_quiet()

    def check(self) -> None:
        """Everything that must hold when nothing moves any more."""
        world = self.world
        found = {name: world.named(name) for name in world.names(kinds.QUEUE)}
        members: dict[str, Counter[str]] = {name: Counter() for name in found}
        for kind in GROUP_KINDS:
            for name in world.names(kind):
                queue_name, phase = queue_and_phase_of(world.get(kind, f"ns/{name}"))
                if queue_name in members:
                    members[queue_name][PHASE_FIELDS[phase]] += 1
        assert world.names(kinds.COMMAND) == []
        for name, queue in found.items():
            status = queue.status
            assert {field: getattr(status, field) for field in COUNT_FIELDS} == {
                field: members[name][field] for field in COUNT_FIELDS
            }
            assert status.state in ("Open", "Closed", "Closing")
            assert status.state != "Closing" or members[name].total() > 0
            parent = found.get(queue.spec.parent)
            if parent is not None and parent.status.state != "Open":
                assert status.state != "Open"


TestQueueWorlds = QueueWorlds.TestCase
TestQueueWorlds.settings = examples(60, stateful_step_count=25)
