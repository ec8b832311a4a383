"""A container's manifest and what it refers to → the order to launch it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from volcanoio.localcluster.processes.environment import argv, declared, inherited
from volcanoio.localcluster.processes.images import Images
from volcanoio.localcluster.processes.launch.order import NONE, LaunchOrder, Mount
from volcanoio.localcluster.processes.mounts import absolute, link_tree, rewrite, volume_mounts
from volcanoio.localcluster.processes.sandbox import Sandbox, hostname_of
from volcanoio.localcluster.processes.sources import Sources
from volcanoio.model import quantity
from volcanoio.model.base import Manifest

MOUNT_ROOT = "VOLCANOIO_MOUNT_ROOT"
"""Variable with the directory below which volumes are shown where nothing can be mounted."""


@dataclass(frozen=True)
class Machine:
    """What this machine offers: `namespaces` (launch.order), an empty directory `root`, and where the API server is."""

    namespaces: str
    root: Path
    images: Images
    api_host: str = ""
    api_port: int = 0


def launch_order(
    pod: Manifest,
    container: Manifest,
    sources: Sources,
    volumes: Mapping[str, Path],
    sandbox: Sandbox,
    machine: Machine,
) -> LaunchOrder:
    """The order for a run of a container. Raises Missing, FieldProblem, OSError."""
    name = container["name"]
    hostname = hostname_of(pod)
    own = declared(pod, container, sources)
    variables = inherited() | {"HOSTNAME": hostname} | _offered(container, machine) | own
    mounts = volume_mounts(container, volumes, variables)
    entrypoint = machine.images.entrypoint(container.get("image") or "")
    command = argv(container, entrypoint, _service(machine) | own)
    work = sandbox.work(name)
    cwd = container.get("workingDir") or str(work)
    if machine.namespaces == NONE:
        root = sandbox.path / "root" / name
        link_tree(root, mounts)
        targets = [mount.target for mount in mounts]
        own = {key: rewrite(value, targets, str(root)) for key, value in own.items()}
        cwd = rewrite(cwd, targets, str(root))
        return LaunchOrder(
            argv=[rewrite(word, targets, str(root)) for word in command],
            env=variables | own | {MOUNT_ROOT: str(root)},
            cwd=cwd if os.path.isdir(cwd) else str(work),  # noqa: PTH112 - a plain string
            tty=bool(container.get("tty")),
        )  # fmt: skip
    taken = {mount.target for mount in mounts}
    files = [
        Mount(str(sandbox.hosts), "/etc/hosts"),
        Mount(str(sandbox.path / "etc" / "hostname"), "/etc/hostname"),
        Mount(str(sandbox.termination_log(name)), _termination_path(container)),
    ]
    mounts += [file for file in files if file.target not in taken]
    if not _exists(cwd, mounts):
        mounts.append(Mount(str(work), absolute(cwd)))
    uid, gid, groups = _user(pod, container) if machine.namespaces == "root" else (-1, -1, ())
    return LaunchOrder(
        argv=command,
        env=variables,
        cwd=cwd,
        namespaces=machine.namespaces,
        root=str(machine.root),
        hostname=hostname,
        mounts=tuple(mounts),
        uid=uid,
        gid=gid,
        groups=groups,
        tty=bool(container.get("tty")),
    )


def memory_limit(container: Manifest) -> int:
    """`limits.memory` in bytes, 0 for none."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return 0 if limit is None else quantity.value(limit)


def _offered(container: Manifest, machine: Machine) -> dict[str, str]:
    """What a container is told that does not say otherwise: its number of threads, and the API server's address."""
    resources = container.get("resources") or {}
    cpus = (resources.get("limits") or {}).get("cpu") or (resources.get("requests") or {}).get("cpu")
    threads = {} if cpus is None else {"OMP_NUM_THREADS": str(max(1, math.ceil(quantity.parse(str(cpus)))))}
    return threads | _service(machine)


def _service(machine: Machine) -> dict[str, str]:
    """How clients inside a cluster find its API server."""
    if not machine.api_port:
        return {}
    return {"KUBERNETES_SERVICE_HOST": machine.api_host, "KUBERNETES_SERVICE_PORT": str(machine.api_port)}


def _termination_path(container: Manifest) -> str:
    return absolute(container.get("terminationMessagePath") or "/dev/termination-log")


def _exists(path: str, mounts: list[Mount]) -> bool:
    """Whether a directory is there for the container without making it."""
    below = absolute(path)
    return os.path.isdir(path) or any(  # noqa: PTH112 - a plain string
        below == mount.target or below.startswith(f"{mount.target}/") for mount in mounts
    )


def _user(pod: Manifest, container: Manifest) -> tuple[int, int, tuple[int, ...]]:
    """The user, group and further groups that the security contexts ask for; -1 for the server's own."""
    of_pod = pod["spec"].get("securityContext") or {}
    both = of_pod | {key: value for key, value in (container.get("securityContext") or {}).items() if value is not None}
    further = [int(one) for one in of_pod.get("supplementalGroups") or ()]
    if of_pod.get("fsGroup") is not None:
        further.append(int(of_pod["fsGroup"]))
    uid = int(both["runAsUser"]) if both.get("runAsUser") is not None else -1
    gid = int(both["runAsGroup"]) if both.get("runAsGroup") is not None else 0 if uid > 0 else -1
    return uid, gid, tuple(further)
