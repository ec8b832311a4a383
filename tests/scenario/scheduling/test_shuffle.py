"""Action shuffle: it evicts the running tasks that the first tier with any victims has chosen."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio_plugins.actions.shuffle import Shuffle

from tests.scenario.scheduling.harness import Scenario, group, node, pods, scenarios
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.scheduling.views import Task, TaskStatus


class ChoosesByName:
    """A plugin whose victims are the tasks with certain names."""

    def __init__(self, *names: str) -> None:
        self.name = "by-name"
        self.names = names
        self.candidates: list[str] = []

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        assert all(task.status is TaskStatus.RUNNING for task in candidates)
        self.candidates = [task.name for task in candidates]
        return [task for task in candidates if task.name in self.names]


CLUSTER = (
    *(node("n1"), group("g", 1, phase="Running")),
    *pods("p", 3, "g", cpu="1", on="n1", phase="Running"),
    *pods("bound", 1, "g", cpu="1", on="n1"),
)
"""Three running pods and a bound one."""


@scenarios(
    Scenario(
        name="victims of all plugins of the first tier with any are evicted",
        profile=Profile.of(
            [[ChoosesByName()], [ChoosesByName("p-2"), ChoosesByName("p-0", "bound-0")], [ChoosesByName("p-1")]],
            [Shuffle({})],
        ),
        cluster=CLUSTER,
        evicts=["p-0", "p-2"],
        evict_order=["p-0", "p-2"],
    ),
    Scenario(
        name="victims of the next tier are evicted in the cycle after those of the first",
        profile=Profile.of(
            [[ChoosesByName()], [ChoosesByName("p-2"), ChoosesByName("p-0", "bound-0")], [ChoosesByName("p-1")]],
            [Shuffle({})],
        ),
        cluster=CLUSTER,
        cycles=2,
        evicts=["p-0", "p-1", "p-2"],
        evict_order=["p-0", "p-2", "p-1"],
    ),
    Scenario(
        name="without victims of any tier nothing is evicted",
        profile=Profile.of([[ChoosesByName()]], [Shuffle({})]),
        cluster=CLUSTER,
        cycles=2,
    ),
)
def test_shuffle(scenario: Scenario) -> None:
    scenario.check()


def test_only_running_tasks_are_candidates() -> None:
    plugin = ChoosesByName()
    Scenario(name="", profile=Profile.of([[plugin]], [Shuffle({})]), cluster=CLUSTER, cycles=2).check()
    assert plugin.candidates == ["p-0", "p-1", "p-2"]
