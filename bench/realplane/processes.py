"""The processes of a run: a real control plane, hollow nodes, and the scheduler and controllers of a checkout."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.realplane.audit import AuditLog
from tests.realcluster.binaries import find
from tests.realcluster.controlplane import ControlPlane, control_plane
from tests.realcluster.processes import Server, running

ROOT = Path(__file__).parents[2]
ENTRY = Path(__file__).with_name("entry.py")
COMPONENTS = ("scheduler", "controllers")
HARNESS = "bench"
_ADMINISTRATORS = ("system:masters",)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Checkout:
    """A checkout of volcanoio with its own `.venv`, and the name under which it is reported."""

    name: str
    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / ".venv" / "bin" / "python"


@dataclass(frozen=True)
class Plane:
    """A running control plane, its audit log, and the kubeconfig of each user."""

    control: ControlPlane
    audit: AuditLog
    directory: Path

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of a user with all rights, written on first use."""
        path = self.directory / f"{user}.kubeconfig"
        return path if path.exists() else self.control.kubeconfig_for(user, _ADMINISTRATORS, path)


@contextlib.contextmanager
def plane(directory: Path, *, bodies: bool = False) -> Iterator[Plane]:
    """Run a control plane with an audit log; `bodies` records the bodies of requests too."""
    audit = AuditLog(directory / "audit")
    flags = audit.flags(bodies=bodies)
    with control_plane(find(), directory / "plane", apiserver_flags=flags) as control:
        yield Plane(control, audit, directory)


@contextlib.contextmanager
def hollow_nodes(there: Plane, count: int, resources: str) -> Iterator[Server]:
    """Run hollow nodes of this checkout."""
    user = "hollow-nodes"
    arguments = ["hollow-nodes", "--count", str(count), "--node-resources", resources]
    command = [str(ROOT / ".venv/bin/volcanoio"), *arguments, "--kubeconfig", str(there.kubeconfig(user))]
    with running(user, command, there.directory / f"{user}.log") as server:
        yield server


@contextlib.contextmanager
def components(there: Plane, checkout: Checkout) -> Iterator[Mapping[str, Server]]:
    """Run scheduler and controllers of a checkout, each as its own process and user."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for name in COMPONENTS:
            command = [str(checkout.python), "-P", str(ENTRY), name, str(there.kubeconfig(name))]
            servers[name] = stack.enter_context(running(name, command, there.directory / f"{name}.log"))
        yield servers


def cpu_seconds(servers: Mapping[str, Server]) -> dict[str, float]:
    """Return the CPU time that each process has used, user and system."""
    return {name: process_cpu_seconds(server.pid) for name, server in servers.items()}


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, user and system."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS


def peak_memory_mib(servers: Mapping[str, Server]) -> dict[str, int]:
    """Return the peak memory of each process."""
    return {name: _peak_memory_mib(server.pid) for name, server in servers.items()}


def _peak_memory_mib(pid: int) -> int:
    lines: Sequence[str] = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
