"""From a container's manifest and the objects it refers to, the order to launch it.

Entry points of images, `$(NAME)` expansion, variables, volume mounts, users and limits. There are no images: a command
of this machine takes the place of an image's entry point. Kubernetes: `pkg/kubelet/kubelet_pods.go`,
`third_party/forked/golang/expansion`.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volcanoio.localcluster.processes.launch.order import NONE, LaunchOrder, Mount
from volcanoio.localcluster.processes.sandbox import Sandbox, hostname_of
from volcanoio.localcluster.processes.sources import Missing, Sources, field_value, resource_value
from volcanoio.model import quantity
from volcanoio.model.base import Manifest

_RULE = "write IMAGE=COMMAND, for example nginx*=nginx -g 'daemon off;'"


class ImageMapError(ValueError):
    """An entry cannot be parsed; the text contains the entry and the rule."""


class Images:
    """Commands by image.

    A pattern may contain `*`; the first that matches an image, with or without its tag, applies.
    """

    def __init__(self, commands: Iterable[tuple[str, list[str]]] = ()) -> None:
        self._commands = tuple(commands)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Images:
        """Parse texts `IMAGE=COMMAND`; raises ImageMapError."""
        commands = []
        for entry in entries:
            pattern, equals, text = entry.partition("=")
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise ImageMapError(f"{entry!r}: {error}; {_RULE}") from None
            if not pattern.strip() or not equals or not words:
                raise ImageMapError(f"{entry!r}: {_RULE}")
            commands.append((pattern.strip(), words))
        return cls(commands)

    def entrypoint(self, image: str) -> list[str]:
        """Return the command of an image's containers; empty when none is known."""
        bare = image.partition("@")[0]
        name, _, tag = bare.rpartition(":")
        untagged = name if name and "/" not in tag else bare
        for pattern, words in self._commands:
            if fnmatch.fnmatchcase(bare, pattern) or fnmatch.fnmatchcase(untagged, pattern):
                return words
        return []


_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to known variables; unknown ones stay, and `$$` becomes `$`."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a container has of the server's environment: there is no image to bring these. Nothing else gets in."""


def inherited(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of the server's environment that containers get."""
    own = os.environ if environment is None else environment
    return {name: own[name] for name in INHERITED if name in own} | ({} if "PATH" in own else {"PATH": os.defpath})


def declared(pod: Manifest, container: Manifest, sources: Sources) -> dict[str, str]:
    """Return the variables of a container's `envFrom` and `env`.

    Raises Missing or FieldError.
    """
    found: dict[str, str] = {}
    for bundle in container.get("envFrom") or ():
        content = None
        if bundle.get("configMapRef"):
            content = sources.config_map(bundle["configMapRef"])
        elif bundle.get("secretRef"):
            content = sources.secret(bundle["secretRef"])
        for key, data in (content or {}).items():
            found[bundle.get("prefix", "") + key] = data.decode(errors="replace")
    for variable in container.get("env") or ():
        name = variable["name"]
        if "valueFrom" in variable:
            value = _value_from(pod, container, variable["valueFrom"] or {}, sources)
            if value is not None:
                found[name] = value
        else:
            found[name] = expand(variable.get("value") or "", found)
    return found


def _value_from(pod: Manifest, container: Manifest, source: Mapping[str, Any], sources: Sources) -> str | None:
    if reference := source.get("fieldRef"):
        return field_value(pod, reference.get("fieldPath", ""))
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container["name"], reference, sources.allocatable)
    for field, kind, look in (
        ("configMapKeyRef", "ConfigMap", sources.config_map),
        ("secretKeyRef", "Secret", sources.secret),
    ):
        if reference := source.get(field):
            content = look(reference)
            if content is not None and reference["key"] in content:
                return content[reference["key"]].decode(errors="replace")
            if reference.get("optional"):
                return None
            namespace = pod["metadata"]["namespace"]
            raise Missing(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    return None


def argv(container: Manifest, entrypoint: list[str], variables: Mapping[str, str]) -> list[str]:
    """Return the command line: `command` or the image's entry point, and `args`.

    References to variables are expanded.
    """
    command = container.get("command") or entrypoint
    return [expand(word, variables) for word in (*command, *(container.get("args") or ()))]


def volume_mounts(container: Manifest, volumes: Mapping[str, Path], variables: Mapping[str, str]) -> list[Mount]:
    """Return the mounts of a container; `volumes` are directories or files by name.

    Raises Missing.
    """
    found = []
    for mount in container.get("volumeMounts") or ():
        source = volumes.get(mount["name"])
        if source is None:
            raise Missing(f'volumeMount {mount["mountPath"]}: volume "{mount["name"]}" not found')
        path = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
        if path:
            source = _sub_path(source, path)
        found.append(Mount(str(source), absolute(mount["mountPath"]), bool(mount.get("readOnly"))))
    return found


def absolute(path: str) -> str:
    """Return a mount path without `.`, doubled and trailing slashes.

    A relative one is below the root.
    """
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _sub_path(volume: Path, path: str) -> Path:
    """Return a path within a volume, and create a directory when nothing is there.

    Raises Missing for a path that leads out of the volume.
    """
    target = (volume / path.lstrip("/")).resolve()
    if not target.is_relative_to(volume.resolve()):
        raise Missing(f"subPath {path}: it leads out of its volume")
    if not target.exists():
        target.mkdir(parents=True)
    return target


def rewrite(text: str, targets: list[str], root: str) -> str:
    """Put `root` before every mount path in a text, for kernels without mount namespaces."""
    for target in sorted(targets, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(target)}(?![\w.-])", lambda found: root + found[0], text)
    return text


def link_tree(root: Path, mounts: list[Mount]) -> None:
    """Create mounts as symbolic links below `root`."""
    for mount in sorted(mounts, key=lambda one: one.target.count("/")):
        link = root / mount.target.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        if not link.exists():
            link.symlink_to(mount.source)


MOUNT_ROOT = "VOLCANOIO_MOUNT_ROOT"
"""Variable with the directory below which volumes are shown where nothing can be mounted."""


@dataclass(frozen=True)
class Machine:
    """Facilities of this machine.

    `namespaces` (launch.order), an empty directory `root`, and the address of the API server.
    """

    namespaces: str
    root: Path
    images: Images
    api_host: str = ""
    api_port: int = 0


@dataclass(frozen=True)
class PreparedPod:
    """A pod whose sources were read and whose volumes and sandbox are in place."""

    manifest: Manifest
    sources: Sources
    volumes: Mapping[str, Path]
    sandbox: Sandbox


def launch_order(prepared: PreparedPod, container: Manifest, machine: Machine) -> LaunchOrder:
    """Return the order for a run of a container. Raises Missing, FieldError, OSError."""
    pod, sources, sandbox = prepared.manifest, prepared.sources, prepared.sandbox
    name = container["name"]
    hostname = hostname_of(pod)
    own = declared(pod, container, sources)
    variables = inherited() | {"HOSTNAME": hostname} | _offered(container, machine) | own
    mounts = volume_mounts(container, prepared.volumes, variables)
    entrypoint = machine.images.entrypoint(container.get("image") or "")
    command = argv(container, entrypoint, _service(machine) | own)
    work = sandbox.work(name)
    cwd = container.get("workingDir") or str(work)
    tty = bool(container.get("tty"))
    if machine.namespaces == NONE:
        root = sandbox.path / "root" / name
        link_tree(root, mounts)
        targets = [mount.target for mount in mounts]
        own = {key: rewrite(value, targets, str(root)) for key, value in own.items()}
        cwd = rewrite(cwd, targets, str(root))
        cwd = cwd if os.path.isdir(cwd) else str(work)  # noqa: PTH112 - a plain string
        argv_ = [rewrite(word, targets, str(root)) for word in command]
        return LaunchOrder(argv=argv_, env=variables | own | {MOUNT_ROOT: str(root)}, cwd=cwd, tty=tty)
    mounts = _with_pod_files(mounts, container, sandbox)
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
        tty=tty,
    )


def _with_pod_files(mounts: list[Mount], container: Manifest, sandbox: Sandbox) -> list[Mount]:
    """Return the mounts with the files of a kubelet, except where a volume is mounted."""
    taken = {mount.target for mount in mounts}
    files = (
        Mount(str(sandbox.hosts), "/etc/hosts"),
        Mount(str(sandbox.path / "etc" / "hostname"), "/etc/hostname"),
        Mount(str(sandbox.termination_log(container["name"])), _termination_path(container)),
    )
    return [*mounts, *(file for file in files if file.target not in taken)]


def memory_limit(container: Manifest) -> int:
    """Return `limits.memory` in bytes, 0 for none."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return 0 if limit is None else quantity.value(limit)


def _offered(container: Manifest, machine: Machine) -> dict[str, str]:
    """Return the default variables of a container.

    Its number of threads, and the API server's address.
    """
    resources = container.get("resources") or {}
    cpus = (resources.get("limits") or {}).get("cpu") or (resources.get("requests") or {}).get("cpu")
    threads = {} if cpus is None else {"OMP_NUM_THREADS": str(max(1, math.ceil(quantity.parse(str(cpus)))))}
    return threads | _service(machine)


def _service(machine: Machine) -> dict[str, str]:
    """Return the variables by which clients inside a cluster find its API server."""
    if not machine.api_port:
        return {}
    return {"KUBERNETES_SERVICE_HOST": machine.api_host, "KUBERNETES_SERVICE_PORT": str(machine.api_port)}


def _termination_path(container: Manifest) -> str:
    return absolute(container.get("terminationMessagePath") or "/dev/termination-log")


def _exists(path: str, mounts: list[Mount]) -> bool:
    """Return whether a directory exists in the container without creating it."""
    below = absolute(path)
    return os.path.isdir(path) or any(  # noqa: PTH112 - a plain string
        below == mount.target or below.startswith(f"{mount.target}/") for mount in mounts
    )


def _user(pod: Manifest, container: Manifest) -> tuple[int, int, tuple[int, ...]]:
    """Return the user, group and further groups of the security contexts.

    -1 stands for the server's own.
    """
    of_pod = pod["spec"].get("securityContext") or {}
    both = of_pod | {key: value for key, value in (container.get("securityContext") or {}).items() if value is not None}
    further = [int(one) for one in of_pod.get("supplementalGroups") or ()]
    if of_pod.get("fsGroup") is not None:
        further.append(int(of_pod["fsGroup"]))
    uid = int(both["runAsUser"]) if both.get("runAsUser") is not None else -1
    gid = int(both["runAsGroup"]) if both.get("runAsGroup") is not None else 0 if uid > 0 else -1
    return uid, gid, tuple(further)
