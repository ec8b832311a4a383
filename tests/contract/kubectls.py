"""The kubectl binaries of this machine, and how a test runs one against a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VERSIONED = Path("/usr/lib/google-cloud-sdk/bin")
SECONDS = 30
_V3 = {"KUBECTL_EXPLAIN_OPENAPIV3": "true"}  # the default from 1.28 on


def installed() -> dict[str, str]:
    """Binaries by name: $KUBECTL, then `kubectl` on the path, then the versioned ones of the Google Cloud SDK."""
    found: dict[str, str] = {}
    if os.environ.get("KUBECTL"):
        found["KUBECTL"] = os.environ["KUBECTL"]
    plain = shutil.which("kubectl")
    if plain:
        found["kubectl"] = plain
    for path in sorted(VERSIONED.glob("kubectl.1.*")):
        found[path.name] = str(path)
    return found


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Kubectl:
    """A kubectl with its own home and cache, logged in to a cluster, in a namespace."""

    binary: str
    kubeconfig: Path
    home: Path
    namespace: str

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [self.binary, f"--cache-dir={self.home / 'cache'}", f"--namespace={self.namespace}", *arguments]

    def _environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "PATH": os.environ["PATH"], **_V3}

    def run(self, *arguments: str, manifest: Any = None) -> Ran:
        """Run to the end; `manifest` (objects, or text) goes to standard input, for `-f -`."""
        text = manifest if isinstance(manifest, str) or manifest is None else yaml.safe_dump(manifest)
        done = subprocess.run(
            self._command(arguments),
            input=text,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, manifest: Any = None) -> str:
        """Run, insist on success, and return the standard output."""
        ran = self.run(*arguments, manifest=manifest)
        assert ran.code == 0, f"kubectl {' '.join(arguments)}: {ran.err or ran.out}"
        return ran.out

    @contextmanager
    def following(self, *arguments: str) -> Iterator[Iterator[str]]:
        """The lines of a command that goes on (`get -w`, `logs -f`); it is ended with the block."""
        with subprocess.Popen(
            self._command(arguments),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield (line.rstrip("\n") for line in process.stdout)
            finally:
                process.kill()
