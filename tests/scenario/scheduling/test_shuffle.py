"""Action shuffle: it evicts the running tasks that the first tier with any victims has chosen."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio_plugins.actions.shuffle import Shuffle

from tests.scenario.scheduling.harness import World, group, node, pods
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


def evictions(*tiers: list[ChoosesByName]) -> list[str]:
    """Run shuffle with these plugins over three running pods and a bound one, and return the evicted pods."""
    world = World(
        node("n1"),
        group("g", 1, phase="Running"),
        *pods("p", 3, "g", cpu="1", on="n1", phase="Running"),
        *pods("bound", 1, "g", cpu="1", on="n1"),
    )
    world.profile = Profile.of(tiers, [Shuffle({})])
    world.run(2)
    return world.evictions


def test_victims_of_all_plugins_of_the_first_tier_with_any_are_evicted() -> None:
    assert evictions(
        [ChoosesByName()], [ChoosesByName("p-2"), ChoosesByName("p-0", "bound-0")], [ChoosesByName("p-1")]
    ) == ["p-0", "p-2", "p-1"]
    assert evictions([ChoosesByName()]) == []


def test_only_running_tasks_are_candidates() -> None:
    plugin = ChoosesByName()
    evictions([plugin])
    assert plugin.candidates == ["p-0", "p-1", "p-2"]
