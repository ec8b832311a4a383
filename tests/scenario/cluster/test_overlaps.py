"""Schedulers whose nodes overlap report it to each other through their Leases, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from tests.scenario.cluster.takeovers import Takeovers, registry, takeovers
from tests.scenario.scheduling.harness import node
from tests.unit.kube.elections import Process
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.compose.sharing import CHECK_INTERVAL
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.kube.leader_election import LeaseSettings

NAMESPACE = "volcano-system"
NODES = {"n1": {"zone": "a"}, "n2": {"zone": "a", "pool": "big"}, "n3": {"zone": "b", "pool": "big"}, "n4": {}}


def scheduler(world: Takeovers, name: str, label: tuple[str, str], *, elects: bool = True) -> Process:
    """Run a scheduler with a name, a lease and a label of nodes of its own."""
    settings = SchedulerSettings(
        registry=registry(),
        state=StateOptions(scheduler_names=frozenset({name}), scope=Scope(node_selector=(label,))),
        lease=(NAMESPACE, name),
    )
    lease = LeaseSettings(name=name, namespace=NAMESPACE, identity=name, annotations=settings.share.annotations())
    process = Process(world, name, settings=lease)
    world.processes.append(process.start() if elects else process)
    component = SchedulerProcess(
        process.transport, clock=process.clock, settings=settings, leadership=process.leadership if elects else None
    )
    process.run(component.run())
    return process


@contextmanager
def reports() -> Iterator[list[tuple[Any, ...]]]:
    """The other scheduler, the number of common nodes and its labels, of each warning in the block."""
    found: list[tuple[Any, ...]] = []
    with capture_logs() as lines:
        yield found
    found += [
        (line["other"], line.get("nodes", line.get("scheduler_names")), line.get("node_selector"))
        for line in lines
        if line["event"].startswith("another scheduler places pods")
    ]


async def test_each_scheduler_reports_the_one_that_shares_its_nodes() -> None:
    async with takeovers() as world:
        await world.create(*(node(name, cpu="8", labels=labels) for name, labels in NODES.items()))
        with reports() as first:
            scheduler(world, "first", ("zone", "a"))
            await world.clock.advance(10)
        assert first == [], "there is no other one"
        with reports() as second:
            scheduler(world, "second", ("pool", "big"))
            await world.clock.advance(10)
        assert second == [("first", 1, "zone:a")], "at its start"
        with reports() as later:
            await world.clock.advance(CHECK_INTERVAL)
        assert later == [("second", 1, "pool:big")], "the first one, when it looks again; the second one not twice"


async def test_a_scheduler_without_leader_election_reports_all_that_have_one() -> None:
    """Also one of its own name, of which it would be a standby with leader election."""
    async with takeovers() as world:
        await world.create(*(node(name, cpu="8", labels=labels) for name, labels in NODES.items()))
        scheduler(world, "first", ("zone", "a"))
        await world.clock.advance(10)
        with reports() as found:
            scheduler(world, "first", ("zone", "a"), elects=False)
            await world.clock.advance(10)
        assert found == [("first", ("first",), None), ("first", 2, "zone:a")]
