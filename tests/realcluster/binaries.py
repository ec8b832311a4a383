"""Where the real control plane's programs are: KUBEBUILDER_ASSETS when set, else the cache of `make real-apiserver`.

`python -m tests.realcluster.binaries` prints where they are, and fails if they are missing.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).parent
"""The Go module that the programs are built from."""
VERSION: str = re.findall(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)[0]
"""The Kubernetes that the module builds, such as v1.36.3."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
ASSETS = "KUBEBUILDER_ASSETS"
"""The variable by which the field says where these programs are."""


class NoBinariesError(Exception):
    """There is no complete set of programs; the message says where was looked and how to get them."""


@dataclass(frozen=True)
class Binaries:
    """A directory with all of PROGRAMS."""

    directory: Path

    def path(self, program: str) -> str:
        """The path of one of PROGRAMS."""
        return str(self.directory / program)


def cache() -> Path:
    """The directory that `make real-apiserver` builds into."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanoio" / "real-apiserver" / VERSION / "bin"


def missing(directory: Path) -> list[str]:
    """Return the PROGRAMS that are missing in a directory."""
    return [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]


def find() -> Binaries:
    """The programs to use."""
    named = os.environ.get(ASSETS)
    directory = Path(named).absolute() if named else cache()
    absent = missing(directory)
    if absent:
        origin = f" (from {ASSETS}; envtest's archives come without a controller manager)" if named else ""
        raise NoBinariesError(
            f"{directory}{origin} has no {', '.join(absent)}; "
            f"build them with `make real-apiserver` (needs Go), or set {ASSETS} to a directory that has them"
        )
    return Binaries(directory)


if __name__ == "__main__":
    try:
        print(f"a real control plane's programs: {find().directory}")
    except NoBinariesError as error:
        sys.exit(str(error))
