"""Scenarios run only inside `python -m tests.realcluster.deployed`, which has a world for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.support import unique, wait_until_stable
from tests.realcluster.deployed.scenario import NODE_RESOURCES, NODES, Scenario
from tests.realcluster.deployed.world import WORLD, World


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave everything out of other runs."""
    return None if WORLD in config.stash else True


ORDER = ("test_install", "test_jobs", "test_tenants", "test_faults", "test_kills", "test_uninstall", "test_upgrade")
"""What the scenarios leave behind decides: an installation that was never disturbed is looked at first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the modules of scenarios in their order."""
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else len(ORDER))


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
    name = unique("run")
    installed.ready()
    installed.kubectl("create", "namespace", name)
    wait_until_stable(installed.cluster, name)
    yield Scenario(installed, name)
    try:
        installed.verify()
    finally:
        installed.invariants.violations.clear()
        installed.emptied(name)
