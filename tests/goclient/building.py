"""`make go-clients`: build this module's programs, once for each state of its sources, into a cache outside the tree.

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
PROGRAMS = ("clients", "corpus", "matching", "prototable")
"""The module's packages; that of tests becomes the program that runs them."""


class NotBuiltError(Exception):
    """A program is not in the cache; the message says how to get it."""


def program(package: str) -> Path:
    """The program of a package, built from the sources as they are now."""
    path = _cache() / _digest() / package
    if not path.exists():
        raise NotBuiltError(f"{path} is not there; build it with `make go-clients` (needs Go)")
    return path


def main() -> int:
    """Build what is missing, or with `--check` only say whether anything is; returns the exit code."""
    directory = _cache() / _digest()
    wanted = [package for package in PROGRAMS if not (directory / package).exists()]
    if sys.argv[1:] == ["--check"]:
        return 1 if wanted else 0
    if not wanted:
        print(f"the Go clients are there: {directory}")
        return 0
    go = shutil.which("go")
    if go is None:
        print("make go-clients needs Go: see https://go.dev/doc/install", file=sys.stderr)
        return 1
    print(f"building {', '.join(wanted)} into {directory}: two minutes or three with an empty build cache", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    for package in wanted:
        begun = time.monotonic()
        if not _build(go, package, directory):
            print(f"{package} was not built: see above", file=sys.stderr)
            return 1
        print(f"  {package}: {time.monotonic() - begun:.0f} s", flush=True)
    for older in _cache().iterdir():
        if older != directory:
            shutil.rmtree(older, ignore_errors=True)
    return 0


def _build(go: str, package: str, directory: Path) -> bool:
    partial = directory / f".{package}.partial"
    command = [go, "test", "-c"] if any((MODULE / package).glob("*_test.go")) else [go, "build"]
    command += ["-trimpath", "-ldflags=-s -w", "-o", str(partial), f"./{package}"]
    if subprocess.run(command, cwd=MODULE, env={**os.environ, "CGO_ENABLED": "0"}, check=False).returncode:
        partial.unlink(missing_ok=True)
        return False
    partial.replace(directory / package)  # whole or not at all
    return True


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanoio" / "goclient"


def _digest() -> str:
    """Return a digest of the sources: any change rebuilds all."""
    found = hashlib.sha256()
    for path in sorted([*MODULE.rglob("*.go"), MODULE / "go.mod", MODULE / "go.sum"]):
        found.update(path.relative_to(MODULE).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
