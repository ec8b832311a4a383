"""`make go-clients`: build the Go programs of the tests once for each state of their sources, into a cache.

Tests only use what was built, as a first build takes minutes. Runs on Python 3.9 with the standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

MODULE = Path(__file__).parent
HELM = "helm"
PROGRAMS = ("clients", "corpus", "matching", "prototable", HELM)
"""The module's packages; that of tests becomes the program that runs them. Helm has a module of its own."""


class NotBuiltError(Exception):
    """A program is not in the cache; the message says how to get it."""


def program(package: str) -> Path:
    """The program of a package, built from the sources as they are now."""
    path = _directory(package) / package
    if not path.exists():
        raise NotBuiltError(f"{path} is not there; build it with `make go-clients` (needs Go)")
    return path


def main() -> int:
    """Build what is missing, or with `--check` only say whether anything is; returns the exit code."""
    wanted = [package for package in PROGRAMS if not (_directory(package) / package).exists()]
    if sys.argv[1:] == ["--check"]:
        return 1 if wanted else 0
    if not wanted:
        print(f"the Go clients are there: {_cache()}")
        return 0
    go = shutil.which("go")
    if go is None:
        print("make go-clients needs Go: see https://go.dev/doc/install", file=sys.stderr)
        return 1
    print(f"building {', '.join(wanted)} into {_cache()}: a minute each or less with an empty build cache", flush=True)
    for package in wanted:
        begun = time.monotonic()
        if not _build(go, package):
            print(f"{package} was not built: see above", file=sys.stderr)
            return 1
        print(f"  {package}: {time.monotonic() - begun:.0f} s", flush=True)
    used = {_directory(package) for package in PROGRAMS}
    for older in _cache().iterdir():
        if older not in used:
            shutil.rmtree(older, ignore_errors=True)
    return 0


def _build(go: str, package: str) -> bool:
    directory = _directory(package)
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f".{package}.partial"
    command = [go, "test", "-c"] if any((MODULE / package).glob("*_test.go")) else [go, "build"]
    command += ["-trimpath", "-ldflags=-s -w", "-o", str(partial)]
    command += ["helm.sh/helm/v4/cmd/helm"] if package == HELM else [f"./{package}"]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    if subprocess.run(command, cwd=_module(package), env=environment, check=False).returncode:
        partial.unlink(missing_ok=True)
        return False
    partial.replace(directory / package)  # whole or not at all
    return True


def _module(package: str) -> Path:
    return MODULE / HELM if package == HELM else MODULE


def _directory(package: str) -> Path:
    return _cache() / _digest(_module(package))


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanoio" / "goclient"


def _digest(module: Path) -> str:
    """Return a digest of the sources: any change rebuilds all of the module."""
    found = hashlib.sha256()
    for path in sorted([*module.rglob("*.go"), module / "go.mod", module / "go.sum"]):
        found.update(path.relative_to(module).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
