"""Scenarios run only inside `python -m tests.realcluster.deployed`, which has a world for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.support import unique
from tests.realcluster.deployed.scenario import NODE_RESOURCES, NODES, Scenario
from tests.realcluster.deployed.world import WORLD, World


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave everything out of other runs."""
    return None if WORLD in config.stash else True


@pytest.fixture(scope="session")
def world(pytestconfig: pytest.Config) -> World:
    return pytestconfig.stash[WORLD]


@pytest.fixture(scope="session")
def installed(world: World) -> World:
    """The world with all components from config/deploy and simulated nodes."""
    world.measured["seconds from kubectl apply to all replicas ready"] = round(world.install(), 1)
    world.join_nodes(NODES, NODE_RESOURCES)
    return world


@pytest.fixture
def scenario(installed: World) -> Iterator[Scenario]:
    """A namespace; afterwards the invariants must hold, and RBAC must have forbidden nothing."""
    position, name = installed.audit.size(), unique("run")
    installed.ready()
    installed.kubectl("create", "namespace", name)
    yield Scenario(installed, name)
    try:
        installed.verify(position)
    finally:
        installed.invariants.violations.clear()
        installed.emptied(name)
