"""Where a container's volumes are shown, and how paths are rewritten where nothing can be mounted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from volcanoio.localcluster.processes.expansion import expand
from volcanoio.localcluster.processes.launch.order import Mount
from volcanoio.localcluster.processes.sources import Missing
from volcanoio.model.base import Manifest


def volume_mounts(container: Manifest, volumes: Mapping[str, Path], variables: Mapping[str, str]) -> list[Mount]:
    """The mounts that a container asks for. `volumes` are directories or files by name. Raises Missing."""
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
    """A mount path without `.`, doubled and trailing slashes; a relative one is below the root."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _sub_path(volume: Path, path: str) -> Path:
    """A path within a volume; a directory is made when there is nothing. Raises Missing for one that leads out."""
    target = (volume / path.lstrip("/")).resolve()
    if not target.is_relative_to(volume.resolve()):
        raise Missing(f"subPath {path}: it leads out of its volume")
    if not target.exists():
        target.mkdir(parents=True)
    return target


def rewrite(text: str, targets: list[str], root: str) -> str:
    """Put `root` before every mount path in a text. For kernels without mount namespaces."""
    for target in sorted(targets, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(target)}(?![\w.-])", lambda found: root + found[0], text)
    return text


def link_tree(root: Path, mounts: list[Mount]) -> None:
    """Show mounts as symbolic links below `root`."""
    for mount in sorted(mounts, key=lambda one: one.target.count("/")):
        link = root / mount.target.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        if not link.exists():
            link.symlink_to(mount.source)
