"""`make real-apiserver`: build the programs that are missing from the cache, from the module beside this file.

Runs on any Python 3.9 and with the standard library alone, so that it needs no environment of ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.realcluster.binaries import MODULE, VERSION, cache, missing

_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
_EXPECTED_SECONDS = {"etcd": 43, "kube-apiserver": 245, "kube-controller-manager": 89}
"""What each took on two cores with an empty build cache, one after the other in this order."""
_VERSION_VARIABLES = "k8s.io/component-base/version"
_SEE = "see https://go.dev/doc/install, then run make real-apiserver again"


class NoGoError(Exception):
    """There is no Go that can build the module; the message says which one is needed."""


def main() -> int:
    """Build what is missing; returns the exit code."""
    directory = cache()
    wanted = missing(directory)
    if not wanted:
        print(f"the real control plane ({VERSION}) is there: {directory}")
        return 0
    try:
        go, version = _go()
    except NoGoError as error:
        print(error, file=sys.stderr)
        return 1
    expected = sum(_EXPECTED_SECONDS[name] for name in wanted) / 60
    print(f"building {', '.join(wanted)} ({VERSION}) with {version} into {directory}")
    print(
        f"this took {expected:.0f} min on two cores with an empty build cache, and besides 0.8 GB of modules are "
        "downloaded once and 3 GB of Go's build cache used",
        flush=True,
    )
    directory.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    for name in wanted:
        if not _build(go, name, directory):
            print(f"{name} was not built: see above; what was built before it is kept", file=sys.stderr)
            return 1
    print(f"done after {(time.monotonic() - begun) / 60:.1f} min; `make contract-real` runs the contract tests on it")
    return 0


def _build(go: str, name: str, directory: Path) -> bool:
    begun = time.monotonic()
    partial = directory / f".{name}.partial"
    command = [go, "build", "-trimpath", "-ldflags", _linker_flags(), "-o", str(partial), _PACKAGES[name]]
    if subprocess.run(command, cwd=MODULE, env={**os.environ, "CGO_ENABLED": "0"}, check=False).returncode:
        partial.unlink(missing_ok=True)
        return False
    partial.replace(directory / name)  # whole or not at all
    print(f"  {name}: {time.monotonic() - begun:.0f} s", flush=True)
    return True


def _linker_flags() -> str:
    """Linker flags: no symbols, and the version that the servers report."""
    major, minor, _ = VERSION[1:].split(".", 2)
    reported = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {_VERSION_VARIABLES}.{key}={value}" for key, value in reported.items())])


def _go() -> tuple[str, str]:
    """The path and the version of a Go that is new enough."""
    lowest = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert lowest, "go.mod names its Go version"
    need = lowest[1]
    go = shutil.which("go")
    if go is None:
        raise NoGoError(f"make real-apiserver needs Go {need} or newer, and there is no `go` on PATH: {_SEE}")
    # Inside the module: Go 1.21 and newer look for the version that go.mod asks for, and may fetch it.
    ran = subprocess.run([go, "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True, check=False)
    version = ran.stdout.strip()
    if ran.returncode or _numbers(version) < _numbers(need):
        found = version or ran.stderr.strip()
        raise NoGoError(f"make real-apiserver needs Go {need} or newer, and {go} says: {found}: {_SEE}")
    return go, version


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


if __name__ == "__main__":
    sys.exit(main())
