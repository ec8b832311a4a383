"""Cases run only inside `python -m tests.realcluster.admission`, which has a control plane for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realcluster.admission.world import WORLD, World


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave everything out of other runs."""
    return None if WORLD in config.stash else True


@pytest.fixture(scope="session")
def world(pytestconfig: pytest.Config) -> World:
    return pytestconfig.stash[WORLD]
