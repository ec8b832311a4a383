"""`python -m tests.realcluster.admission [PYTEST ARGUMENTS]`: webhooks and admission policies on a real API server."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.realcluster.admission.world import WORLD, World, prepare
from tests.realcluster.binaries import NoBinariesError, find
from tests.realcluster.controlplane import control_plane
from tests.realcluster.processes import FailedStartError

CASES = Path(__file__).parent / "cases"


def main() -> int:
    """Run the cases; returns pytest's exit code, or 1 when there is no control plane to run them on."""
    try:
        with tempfile.TemporaryDirectory(prefix="volcanoio-admission-") as name:
            directory = Path(name)
            with control_plane(find(), directory / "plane") as plane:
                world = World(plane, directory)
                prepare(world)
                imported = "ignore::pytest.PytestAssertRewriteWarning"  # anyio is a plugin, and imported by the world
                arguments = ["-v", "-n", "0", "-p", "no:cacheprovider", "-W", imported, *sys.argv[1:], str(CASES)]
                return int(pytest.main(arguments, plugins=[Provider(world)]))
    except (NoBinariesError, FailedStartError) as error:
        print(error, file=sys.stderr)
        return 1


class Provider:
    """The plugin that gives the cases their world; without it they are not collected."""

    name = "admission-world"

    def __init__(self, world: World) -> None:
        self._world = world

    def pytest_configure(self, config: pytest.Config) -> None:
        """Mark the run as one that has a world."""
        config.stash[WORLD] = self._world


if __name__ == "__main__":
    sys.exit(main())
