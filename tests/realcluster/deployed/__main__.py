"""`python -m tests.realcluster.deployed [--quick] [PYTEST ARGUMENTS]`: our components on a real control plane.

Builds the wheel, installs it, starts the control plane in a network namespace of its own, applies the rendered
manifests, runs the scenarios, and writes versions, date, results and the use of RBAC to `results`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.realcluster.binaries import Binaries, NoBinariesError, cache, find
from tests.realcluster.controlplane import ControlPlane, control_plane
from tests.realcluster.deployed import audit, installation, rendering
from tests.realcluster.deployed.network import Network
from tests.realcluster.deployed.sandbox import Image
from tests.realcluster.deployed.world import USERS, WORLD, World
from tests.realcluster.processes import FailedStartError
from tests.realcluster.recording import Recorder

SCENARIOS = Path(__file__).parent / "scenarios"
RESULTS = Path(__file__).parent / "results"
_INSIDE = "VOLCANOIO_REAL_NAMESPACE"
_PREPARED = "VOLCANOIO_REAL_PREPARED"
"""A directory with environments of an earlier run, which are used as they are."""


def main() -> int:
    """Run; returns pytest's exit code, or 1 when there is nothing to run on."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.realcluster.deployed", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="only the scenarios of the installation")
    parser.add_argument("--record", action="store_true", help=f"write the record to {RESULTS}")
    parser.add_argument("--keep", type=Path, help="keep everything in this directory, which must not exist")
    arguments, rest = parser.parse_known_args()
    if arguments.keep and arguments.keep.absolute().is_relative_to("/tmp"):
        parser.error("--keep: pods mount an empty directory over /tmp; choose a directory elsewhere")
    try:
        binaries = find()
        # Not under /tmp for the same reason: scripts of an environment name it by its path.
        cache().parents[2].mkdir(parents=True, exist_ok=True)
        directory = arguments.keep or Path(tempfile.mkdtemp(prefix="deployed-", dir=cache().parents[2]))
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
        try:
            if not os.environ.get(_INSIDE):
                return _outside(directory, quick=arguments.quick)
            return _inside(binaries, directory, arguments, rest)
        finally:
            if not arguments.keep:
                shutil.rmtree(directory, ignore_errors=True)
    except (NoBinariesError, FailedStartError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1


def _outside(directory: Path, *, quick: bool) -> int:
    """Build and install what needs the network of the machine, then run again in namespaces of our own."""
    prepared = os.environ.get(_PREPARED)
    if not prepared:
        prepared = str(directory)
        _prepare(directory, quick=quick)
    probe = ["unshare", *_namespaces(), "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        print(
            f"{' '.join(probe)} is not allowed here: run as root, or allow user namespaces "
            "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
            file=sys.stderr,
        )
        return 1
    command = ["unshare", *_namespaces(), sys.executable, "-m", "tests.realcluster.deployed", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, _INSIDE: "1", _PREPARED: prepared}, check=False).returncode


def _namespaces() -> list[str]:
    return ["--mount", "--net"] if os.getuid() == 0 else ["--map-root-user", "--mount", "--net"]


def _prepare(directory: Path, *, quick: bool) -> None:
    """Build and install this tree and, unless `quick`, the earliest version that has the components' commands."""
    begun = time.monotonic()
    (directory / "dist").mkdir()
    built = installation.wheel(installation.ROOT, directory / "dist")
    installation.environment(built, directory / "current")
    print(f"installed {built.name} of {installation.described()} after {time.monotonic() - begun:.0f} s", flush=True)
    revision = rendering.earlier_revision()
    if revision and not quick:
        (directory / "dist-earlier").mkdir()
        source = installation.checked_out(revision, directory / "source")
        installation.environment(installation.wheel(source, directory / "dist-earlier"), directory / "earlier")
        (directory / "earlier.txt").write_text(installation.described(revision))
        print(f"installed {installation.described(revision)} beside it", flush=True)


def _inside(binaries: Binaries, directory: Path, arguments: argparse.Namespace, rest: list[str]) -> int:
    prepared = Path(os.environ[_PREPARED])
    log = audit.AuditLog(directory / "audit.log")
    flags = [*audit.flags(directory), "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"]
    network = Network()
    with control_plane(binaries, directory / "plane", apiserver_flags=flags) as plane:
        world = _world(plane, network, directory, prepared, log)
        world.start()
        recorder = Recorder(SCENARIOS)
        named = any(Path(word.partition("::")[0]).exists() for word in rest)
        chosen = [*rest, *([] if named else [str(SCENARIOS / "test_install.py" if arguments.quick else SCENARIOS)])]
        try:
            code = pytest.main(
                ["-v", "-n", "0", "-p", "no:cacheprovider", "--timeout=600", *chosen],
                plugins=[recorder, Provider(world)],
            )
            report = _rbac(world)
        finally:
            world.stop()
        print(_table(report))
        if any(row["forbidden"] for row in report.values()):
            code = code or 1
        served = str(_version(plane))
        if arguments.record:
            further = {
                "volcanoio": installation.described(),
                "earlier version": (prepared / "earlier.txt").read_text() if "earlier" in world.rendered else "none",
                "figures": world.measured,
                "longest gang bind, seconds": round(world.invariants.longest_partial, 2),
                "longest bind of a gang that a fault struck, seconds": round(
                    max((seconds for _, seconds in world.invariants.partials), default=0.0), 2
                ),
                "rbac": report,
            }
            print(f"recorded: {recorder.write(served, binaries, results=RESULTS, further=further)}")
        return int(code)


def _world(plane: ControlPlane, network: Network, directory: Path, prepared: Path, log: audit.AuditLog) -> World:
    forms = rendering.render(directory / "rendered")
    image = rendering.image(forms["deploy"])
    images = {image: Image(prepared / "current")}
    if (prepared / "earlier").exists():
        images[rendering.EARLIER_IMAGE] = Image(prepared / "earlier")
        forms["earlier"] = rendering.earlier(prepared / "source", directory / "rendered-earlier")
    return World(plane, network, directory, images, log, image, forms)


def _version(plane: ControlPlane) -> str:
    ran = subprocess.run([*_kubectl(plane), "get", "--raw", "/version"], capture_output=True, text=True, check=True)
    return str(json.loads(ran.stdout)["gitVersion"])


def _kubectl(plane: ControlPlane) -> list[str]:
    return ["kubectl", f"--kubeconfig={plane.kubeconfig}"]


def _rbac(world: World) -> dict[str, Any]:
    """Return what was forbidden, and per role what was granted and never used."""
    granted = world.grants()
    calls = list(world.audit.calls())
    never = audit.unused(granted, calls)
    by_user: dict[str, Any] = {}
    for user in USERS:
        mine = [call for call in calls if call.user == user]
        by_user[user.rpartition(":")[2]] = {
            "calls": len(mine),
            "granted": sum(grant.user == user for grant in granted),
            "forbidden": sorted({f"{call.verb} {call.resource}" for call in world.forbidden(mine)}),
            "never used": sorted(
                f"{grant.verb} {grant.resource}{f'.{grant.group}' if grant.group else ''}"
                for grant in never
                if grant.user == user
            ),
            "answers": {str(code): count for code, count in sorted(Counter(call.code for call in mine).items())},
        }
    return by_user


def _table(report: dict[str, Any]) -> str:
    lines = ["", f"{'account':22} {'calls':>7} {'grants':>7}  never used"]
    for user, row in report.items():
        lines.append(f"{user:22} {row['calls']:7} {row['granted']:7}  {', '.join(row['never used']) or 'none'}")
        if row["forbidden"]:
            lines.append(f"{'':38}  forbidden: {', '.join(row['forbidden'])}")
    return "\n".join(lines)


class Provider:
    """The plugin that gives scenarios their world; without it they are not collected."""

    name = "real-world"

    def __init__(self, world: World) -> None:
        self._world = world

    def pytest_configure(self, config: pytest.Config) -> None:
        """Mark the run as one that has a world."""
        config.stash[WORLD] = self._world


if __name__ == "__main__":
    sys.exit(main())
