"""`python -m tests.realcluster.contract [--record] [PYTEST ARGUMENTS]`: the contract tests on a real control plane.

The same tests as on the embedded server. One control plane serves all workers, for as long as the tests run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.contract.support import FOREIGN, THROWAWAY, Cluster
from tests.realcluster.binaries import Binaries, NoBinariesError, find
from tests.realcluster.controlplane import control_plane
from tests.realcluster.processes import FailedStartError
from tests.realcluster.recording import RESULTS, Recorder

SUITE = Path(__file__).parents[1] / "contract"
_ARGUMENTS = ["-q", "-n", "2", "--dist", "loadfile"]  # both cores; cases of a file may share what they set up


def main() -> int:
    """Run the suite; returns pytest's exit code, or 1 when there is no control plane to run it on."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.realcluster.contract", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--record", action="store_true", help=f"write the outcome of each case to {RESULTS}")
    arguments, rest = parser.parse_known_args()
    if arguments.record and rest:
        parser.error(f"--record is for a complete run; leave out {' '.join(rest)}")
    try:
        with tempfile.TemporaryDirectory(prefix="volcanoio-real-") as directory:
            return _run(find(), Path(directory), rest, record=arguments.record)
    except (NoBinariesError, FailedStartError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(binaries: Binaries, directory: Path, arguments: list[str], *, record: bool) -> int:
    with control_plane(binaries, directory / "plane") as plane:
        os.environ |= {FOREIGN: str(plane.kubeconfig), THROWAWAY: "yes"}
        cluster = Cluster.of(plane.kubeconfig)
        served = str(cluster.get("/version").ok()["gitVersion"])
        cluster.close()
        print(f"contract tests on kube-apiserver {served} at {plane.url}", flush=True)
        recorder = Recorder(SUITE)
        code = pytest.main([*_ARGUMENTS, *(arguments or [str(SUITE)])], plugins=[recorder])
        if record:
            print(f"recorded: {recorder.write(served, binaries)}")
        return int(code)


if __name__ == "__main__":
    sys.exit(main())
