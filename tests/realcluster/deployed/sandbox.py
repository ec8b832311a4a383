"""A container without an engine: namespaces for mounts, network and host name, a root directory, and an ordinary user.

The process sees a read-only root with the machine's /usr and /etc, the environment that its image stands for, and the
volumes of its pod at their mount paths. It has no capabilities and cannot gain any. Memory and CPU are not limited.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.realcluster.deployed.network import Network

_SHARED = ("/usr", "/etc", "/dev", "/proc")
_LINKS = ("/bin", "/lib", "/lib64", "/sbin")
_USER = 65532


@dataclass(frozen=True)
class Image:
    """What an image's name stands for: an environment with the wheel installed, and the image's own settings."""

    environment: Path
    entrypoint: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mount:
    """A directory of the host, or a file of it, at a path in the container."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Container:
    """A resolved container: nothing refers to the API any more."""

    command: Sequence[str]
    variables: Mapping[str, str]
    mounts: Sequence[Mount]
    image: Image
    user: int = _USER
    read_only_root: bool = True
    directory: str = "/"


class Sandbox:
    """One run of a container; `directory` is the pod's on the host."""

    def __init__(self, network: Network, address: str, container: Container, directory: Path, log: Path) -> None:
        root = directory / "root"
        root.mkdir(exist_ok=True)
        go_read, go_write = os.pipe()
        ready_read, ready_write = os.pipe()
        script = _script(container, root, network.setup(address), ready=ready_write, go=go_read)
        path = f"{container.image.environment}/bin:/usr/bin:/bin:/usr/sbin"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--net", "--uts", "--", "bash", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": path, "HOME": "/", **container.image.variables, **container.variables},
                pass_fds=(go_read, ready_write),
                start_new_session=True,
            )
        os.close(go_read)
        os.close(ready_write)
        with (
            contextlib.closing(os.fdopen(ready_read, "rb")) as answers,
            contextlib.closing(os.fdopen(go_write, "wb")) as orders,
        ):
            if answers.read(1):  # it has its namespaces
                network.attach(self._process.pid, address)
                orders.write(b"\n")

    @property
    def pid(self) -> int:
        """The process id of the container's command, on the host."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)


def _script(container: Container, root: Path, network: Sequence[str], *, ready: int, go: int) -> str:
    """Return the script for bash that makes the root directory and ends in the container's command."""
    at = shlex.quote(str(root))
    lines = [
        "set -e",
        f"printf x >&{ready}; exec {ready}>&-; read _ <&{go}; exec {go}<&-",
        *network,
        f"echo {shlex.quote(container.variables.get('HOSTNAME', 'pod'))} > /proc/sys/kernel/hostname",
        "mount --make-rprivate /",
        f"mount -t tmpfs -o mode=0755 root {at}",
    ]
    for shared in (*_SHARED, str(container.image.environment), sys.base_prefix):
        if not shared.startswith("/usr/"):
            lines += _bind(Path(shared), at, shared, read_only=shared not in {"/dev", "/proc"})
    lines += [f"ln -s usr{link} {at}{link}" for link in _LINKS]
    lines += [f"mkdir -m 1777 {at}/tmp" if not container.read_only_root else f"mkdir -p {at}/tmp"]
    for mount in sorted(container.mounts, key=lambda mount: mount.target):
        lines += _bind(mount.source, at, mount.target, read_only=mount.read_only)
    if container.read_only_root:
        lines.append(f"mount -o remount,ro {at}")
    identity = f"--reuid={container.user} --regid={container.user} --clear-groups " if os.getuid() == 0 else ""
    command = shlex.join(container.command)
    lines.append(
        f"cd {at}; exec chroot . setpriv {identity if _has_users() else ''}--no-new-privs --bounding-set=-all "
        f"--inh-caps=-all -- sh -c {shlex.quote(f'cd {shlex.quote(container.directory)}; exec {command}')}"
    )
    return "\n".join(lines)


def _bind(source: Path, root: str, target: str, *, read_only: bool) -> list[str]:
    where = root + shlex.quote(target)
    made = f"mkdir -p {where}" if source.is_dir() else f"mkdir -p $(dirname {where}); : > {where}"
    lines = [made, f"mount --rbind {shlex.quote(str(source))} {where}"]
    return [*lines, f"mount -o remount,bind,ro {where}"] if read_only else lines


def _has_users() -> bool:
    """Whether other user ids than 0 exist here: a user namespace made by an ordinary user maps only one."""
    return (
        len(Path("/proc/self/uid_map").read_text().split()) == 3
        and int(Path("/proc/self/uid_map").read_text().split()[2]) > _USER
    )
