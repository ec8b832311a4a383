"""Writes data/protobuf.json from the Go types of Kubernetes.

Run it as `python -m volcanoio.localcluster.apiserver.protobuf.generate`, after a change of the built-in resources or of
the release of Kubernetes in the go.mod of tests/goclient. It needs Go and that module.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from volcanoio.localcluster.apiserver.apimachinery.served_resources import BUILTINS
from volcanoio.localcluster.apiserver.protobuf.table import TARGET

MODULE: Final = Path(__file__).parents[4] / "tests" / "goclient"
_BESIDE: Final = ("autoscaling/v1",)
"""Versions without resources of their own: that of the scale subresource."""


def versions() -> tuple[str, ...]:
    """Return the groups and versions whose kinds are in the table."""
    return tuple(dict.fromkeys([*(one.api_version for one in BUILTINS), *_BESIDE]))


def main() -> int:
    """Write the table; returns the exit code."""
    if not MODULE.is_dir():
        sys.stderr.write(f"{MODULE} is missing: run this in a tree of volcanoio, not in an installed package\n")
        return 2
    command = ["go", "run", "./prototable", str(TARGET.resolve()), *versions()]
    return subprocess.run(command, cwd=MODULE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
