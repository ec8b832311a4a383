"""shuffle: running tasks that plugins want elsewhere are evicted, the first tier that names any decides."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio_plugins.actions.shuffle import Shuffle

from tests.scenario.scheduling.harness import World, group, node, pods
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.scheduling.views import Task, TaskStatus


class Naming:
    """Names tasks by their names."""

    def __init__(self, *names: str) -> None:
        self.name = "naming"
        self.names = names
        self.asked: list[str] = []

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        assert all(task.status is TaskStatus.RUNNING for task in candidates)
        self.asked = [task.name for task in candidates]
        return [task for task in candidates if task.name in self.names]


def shuffled(*tiers: list[Naming]) -> list[str]:
    world = World(
        node("n1"),
        group("g", 1, phase="Running"),
        *pods("p", 3, "g", cpu="1", on="n1", phase="Running"),
        *pods("bound", 1, "g", cpu="1", on="n1"),
    )
    world.profile = Profile.of(tiers, [Shuffle({})])
    world.run(2)
    return world.evictions


def test_a_tier_names_together_and_the_first_that_names_any_decides() -> None:
    assert shuffled([Naming()], [Naming("p-2"), Naming("p-0", "bound-0")], [Naming("p-1")]) == ["p-0", "p-2", "p-1"]
    assert shuffled([Naming()]) == []


def test_only_running_tasks_are_asked_about() -> None:
    plugin = Naming()
    shuffled([plugin])
    assert plugin.asked == ["p-0", "p-1", "p-2"]
