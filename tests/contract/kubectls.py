"""The kubectl binaries of this machine, and how a test runs one against a cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.support import Namespace, Obj

VERSIONED = Path("/usr/lib/google-cloud-sdk/bin")
SECONDS = 90
_V3 = {"KUBECTL_EXPLAIN_OPENAPIV3": "true"}  # the default from 1.28 on


def installed() -> dict[str, str]:
    """Binaries by name: $KUBECTL and the versioned ones beside `kubectl` or of the Google Cloud SDK, else `kubectl`.

    Where there are versions, a plain `kubectl` is one of them, or chooses among them.
    """
    found: dict[str, str] = {}
    plain = shutil.which("kubectl")
    places = {VERSIONED, *([Path(plain).parent] if plain else [])}
    for path in sorted(path for place in places for path in place.glob("kubectl.1.*")):
        found[path.name] = str(path)
    if os.environ.get("KUBECTL"):
        found["KUBECTL"] = os.environ["KUBECTL"]
    elif plain and not found:
        found["kubectl"] = plain
    return found


def newest() -> str:
    """The name of the kubectl that $KUBECTL names, or of the newest one; empty when there is none."""
    names = sorted(installed(), key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return "KUBECTL" if "KUBECTL" in names else names[-1] if names else ""


def minor(name: str) -> int:
    """The minor version in a binary's name, or a very new one when the name does not say."""
    found = re.search(r"1\.(\d+)$", name)
    return int(found[1]) if found else 99


USED = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not installed(), reason="no kubectl on this machine; set KUBECTL to the path of one"),
]
"""The marks of test modules that run kubectl."""


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

    @property
    def minor(self) -> int:
        """Its minor version: 33 of 1.33."""
        return minor(Path(self.binary).name)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [self.binary, f"--cache-dir={self.home / 'cache'}", f"--namespace={self.namespace}", *arguments]

    def _environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        always = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "PATH": os.environ["PATH"], **_V3}
        return always | dict(more or {})

    def run(self, *arguments: str, manifest: Any = None, environment: Mapping[str, str] | None = None) -> Ran:
        """Run to the end; `manifest` (objects, or text) goes to standard input, for `-f -`."""
        text = manifest if isinstance(manifest, str) or manifest is None else yaml.safe_dump(manifest)
        done = subprocess.run(
            self._command(arguments),
            input=text,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, manifest: Any = None, environment: Mapping[str, str] | None = None) -> str:
        """Run, insist on success, and return the standard output."""
        ran = self.run(*arguments, manifest=manifest, environment=environment)
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


def login(name: str, namespace: Namespace, homes: Path) -> Kubectl:
    """Each binary keeps one home, so that discovery is cached as it is for a user."""
    home = homes / name
    home.mkdir(exist_ok=True)
    return Kubectl(installed()[name], namespace.cluster.kubeconfig, home, namespace.name)


def running(namespace: Namespace, name: str, node: str = "node-1", **spec: Any) -> Obj:
    """A pod that looks as if a node ran it."""
    namespace.pod(name, **spec)
    namespace.bind(name, node).ok()
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "phase": "Running",
        "podIP": "10.244.0.7",
        "podIPs": [{"ip": "10.244.0.7"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "state": started}
        ],
    }
    return namespace.cluster.patch(namespace.path("pods", name, "status"), {"status": status}).ok()
