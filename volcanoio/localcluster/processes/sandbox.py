"""A pod's directory on this machine: its volumes, hosts file, working directories and logs.

`<state>/pods/<uid>/volumes/<name>`, `…/etc`, `…/work/<container>`, `…/logs/<container>/<attempt>.log`. What
claims hold is where their volumes say.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from volcanoio.localcluster.processes import payloaddir
from volcanoio.localcluster.processes.payloads import payload
from volcanoio.localcluster.processes.sources import Missing, Sources
from volcanoio.model.base import Manifest


class Sandbox:
    """The directory of one pod."""

    def __init__(self, state: Path, uid: str) -> None:
        self.path = state / "pods" / uid
        self.hosts = self.path / "etc" / "hosts"

    def prepare(self, pod: Manifest, sources: Sources) -> dict[str, Path]:
        """Set up what the pod's volumes need; their directories (or files) by name. Raises Missing, OSError."""
        self.hosts.parent.mkdir(parents=True, exist_ok=True)
        (self.path / "etc" / "hostname").write_text(f"{hostname_of(pod)}\n", encoding="utf-8")
        return {volume["name"]: self._volume(pod, volume, sources) for volume in pod["spec"].get("volumes") or ()}

    def refresh(self, pod: Manifest, sources: Sources) -> None:
        """Bring the files of ConfigMaps, Secrets and the downward API up to date. Raises Missing, OSError."""
        for volume in pod["spec"].get("volumes") or ():
            files = payload(pod, volume, sources)
            if files is not None:
                payloaddir.write(self._own(volume), files)

    def _own(self, volume: Mapping[str, Any]) -> Path:
        return self.path / "volumes" / str(volume["name"])

    def _volume(self, pod: Manifest, volume: Mapping[str, Any], sources: Sources) -> Path:
        files = payload(pod, volume, sources)
        if files is not None:
            payloaddir.write(self._own(volume), files)
            return self._own(volume)
        if volume.get("emptyDir") is not None:
            return _directory(self._own(volume), 0o777)
        if host_path := volume.get("hostPath"):
            return _host_path(host_path)
        name = str(volume["name"])
        if claim := volume.get("persistentVolumeClaim"):
            return self._claim(name, str(claim.get("claimName")), sources)
        if volume.get("ephemeral"):
            return self._claim(name, f"{pod['metadata']['name']}-{name}", sources)
        kinds = ", ".join(sorted(set(volume) - {"name"})) or "none"
        raise Missing(f'volume "{name}": its kind ({kinds}) cannot be had by a local process; use emptyDir or hostPath')

    def _claim(self, volume: str, claim: str, sources: Sources) -> Path:
        bound = sources.volumes.get(claim)
        if bound is None:
            raise Missing(f'volume "{volume}": persistentvolumeclaim "{claim}" is not bound')
        spec = bound.get("spec") or {}
        if spec.get("hostPath"):
            return _host_path(spec["hostPath"])
        if spec.get("local"):
            return _host_path({"path": spec["local"]["path"], "type": "Directory"})
        raise Missing(f'volume "{volume}": a PersistentVolume of this kind cannot be had by a local process')

    def work(self, container: str) -> Path:
        """Where a container's command starts when it names no directory."""
        return _directory(self.path / "work" / container, 0o777)

    def termination_log(self, container: str) -> Path:
        """The file of a container's termination message, empty."""
        file = self.path / "termination" / container
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        file.chmod(0o666)
        return file

    def log(self, container: str, attempt: int) -> Path:
        """The log of a run."""
        return self.path / "logs" / container / f"{attempt}.log"

    def remove(self) -> None:
        """Remove it. What claims hold is elsewhere."""
        shutil.rmtree(self.path, ignore_errors=True)


def hostname_of(pod: Manifest) -> str:
    """`spec.hostname` or the pod's name, cut to what a host name may be."""
    name = str(pod["spec"].get("hostname") or pod["metadata"]["name"])
    return name[:63].rstrip("-.")


def _directory(path: Path, mode: int) -> Path:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
    return path


def _host_path(reference: Mapping[str, Any]) -> Path:
    path, kind = Path(reference["path"]), str(reference.get("type") or "")
    if kind == "DirectoryOrCreate" and not path.exists():
        return _directory(path, 0o755)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(0o644)
    holds = _HOST_PATH_TYPES.get(kind, Path.exists)
    if not holds(path):
        raise Missing(f"hostPath type check failed: {path} is not a {kind}" if kind else f"hostPath {path} not found")
    return path


_HOST_PATH_TYPES: dict[str, Callable[[Path], bool]] = {
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}
"""`hostPath.type` → what must hold."""
