"""`python -m tests.realcluster.admission [--record] [PYTEST ARGUMENTS]`: webhooks and policies on a real API server."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pytest

from tests.realcluster.admission.world import WORLD, World, prepare
from tests.realcluster.binaries import Binaries, NoBinariesError, find
from tests.realcluster.controlplane import control_plane
from tests.realcluster.processes import FailedStartError
from tests.realcluster.recording import Recorder

CASES = Path(__file__).parent / "cases"
RESULTS = Path(__file__).parents[1] / "results" / "admission.json"


def main() -> int:
    """Run the cases; returns pytest's exit code, or 1 when there is no control plane to run them on."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.realcluster.admission", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--record", action="store_true", help=f"write the outcome of each case to {RESULTS}")
    arguments, rest = parser.parse_known_args()
    if arguments.record and rest:
        parser.error(f"--record is for a complete run; leave out {' '.join(rest)}")
    try:
        with tempfile.TemporaryDirectory(prefix="volcanoio-admission-") as name:
            return _run(find(), Path(name), rest, record=arguments.record)
    except (NoBinariesError, FailedStartError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(binaries: Binaries, directory: Path, arguments: list[str], *, record: bool) -> int:
    with control_plane(binaries, directory / "plane") as plane:
        world = World(plane, directory)
        prepare(world)
        recorder = Recorder(CASES)
        imported = "ignore::pytest.PytestAssertRewriteWarning"  # anyio is a plugin, and imported by the world
        given = ["-v", "-n", "0", "-p", "no:cacheprovider", "-W", imported, *arguments, str(CASES)]
        code = int(pytest.main(given, plugins=[Provider(world), recorder]))
        if record:
            served = json.loads(world.do("version", "-o", "json"))["serverVersion"]["gitVersion"]
            print(f"recorded: {recorder.write(served, binaries, results=RESULTS)}")
        return code


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
