"""`python -m tests.realcluster.up [--directory D]`: a real control plane in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from tests.realcluster.binaries import NoBinariesError, find
from tests.realcluster.controlplane import control_plane
from tests.realcluster.processes import FailedStartError


def main() -> int:
    """Run until interrupted; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.realcluster.up", description=__doc__)
    parser.add_argument("--directory", type=Path, help="where to keep everything (default: one that is removed)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as stack:
        try:
            directory = arguments.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            begun = time.monotonic()
            plane = stack.enter_context(control_plane(find(), directory))
            print(f"# ready after {time.monotonic() - begun:.1f} s at {plane.url}; Ctrl-C ends it")
            print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
            while True:
                signal.pause()
        except (NoBinariesError, FailedStartError) as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
