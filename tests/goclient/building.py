"""The programs of this Go module, built once into a cache outside the tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

MODULE = Path(__file__).parent
SECONDS = 600
"""How long a build may take: two minutes on two cores with an empty build cache."""


class NoGoError(Exception):
    """There is no Go on this machine, or it cannot build the module; the message says what to do."""


def program(package: str, *, tests: bool = False) -> Path:
    """The program of a package of the module, or the one that runs its tests; built when its sources changed."""
    path = _cache() / _digest() / (f"{package}.test" if tests else package)
    if not path.exists():
        _build(package, path, tests=tests)
    return path


def _build(package: str, path: Path, *, tests: bool) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoGoError("there is no `go` on PATH: see https://go.dev/doc/install")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    command = [go, "test", "-c"] if tests else [go, "build"]
    ran = subprocess.run(
        [*command, "-o", str(partial), f"./{package}"],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ran.returncode:
        raise NoGoError(f"{go} could not build {MODULE / package}: {ran.stderr.strip()}")
    partial.replace(path)  # whole or not at all
    for older in _cache().iterdir():
        if older.name != path.parent.name:
            shutil.rmtree(older, ignore_errors=True)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "volcanoio" / "goclient"


def _digest() -> str:
    """What the sources are: a change of any builds all anew."""
    found = hashlib.sha256()
    for path in sorted([*MODULE.rglob("*.go"), MODULE / "go.mod", MODULE / "go.sum"]):
        found.update(path.relative_to(MODULE).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
