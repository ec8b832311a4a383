"""A pod's directory on this machine: its volumes, hosts file, working directories and logs.

`<state>/pods/<uid>/volumes/<name>`, `…/etc`, `…/work/<container>`, `…/logs/<container>/<attempt>.log`. Claims are
where their volumes point. Files of ConfigMap, Secret, downward API and projected volumes are replaced atomically by
swapping the directory behind `..data` (Kubernetes: `pkg/volume/util/atomic_writer.go`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from volcanoio.localcluster.processes.sources import Content, FieldError, Missing, Sources, field_value, resource_value
from volcanoio.model.base import Manifest

DEFAULT_MODE = 0o644


class VolumeFile(NamedTuple):
    """A file's content and permission bits."""

    data: bytes
    mode: int


Payload = dict[str, VolumeFile]
"""Files by their path in the volume."""


def payload(pod: Manifest, volume: Mapping[str, Any], sources: Sources) -> Payload | None:
    """Return the files of a volume, None for one of another kind. Raises Missing or FieldError."""
    if projected := volume.get("projected"):
        mode = int(projected.get("defaultMode") or DEFAULT_MODE)
        found: Payload = {}
        for source in projected.get("sources") or ():
            found |= _of(pod, source, sources, mode) or {}
        return found
    return _of(pod, volume, sources, None)


def _of(pod: Manifest, source: Mapping[str, Any], sources: Sources, mode: int | None) -> Payload | None:
    if (reference := source.get("configMap")) is not None:
        return _keys(reference, sources.config_map(reference), mode)
    if (reference := source.get("secret")) is not None:
        return _keys(reference, sources.secret(reference), mode)
    if (reference := source.get("downwardAPI")) is not None:
        default = _mode(reference.get("defaultMode"), mode)
        return {item["path"]: _downward(pod, item, sources, default) for item in reference.get("items") or ()}
    if reference := source.get("serviceAccountToken"):
        token = sources.tokens.get(str(reference.get("audience") or ""), "")
        return {reference["path"]: VolumeFile(token.encode(), 0o600 if mode is None else mode)}
    return None


def _mode(own: object, default: int | None) -> int:
    return int(str(own)) if own is not None else DEFAULT_MODE if default is None else default


def _keys(reference: Mapping[str, Any], content: Content | None, default: int | None) -> Payload:
    """Return the wanted keys of a ConfigMap or Secret: those of `items`, else all."""
    mode = _mode(reference.get("defaultMode"), default)
    items: Sequence[Mapping[str, Any]] = reference.get("items") or ()
    if content is None:
        return {}
    if not items:
        return {key: VolumeFile(data, mode) for key, data in content.items()}
    found: Payload = {}
    for item in items:
        if item["key"] in content:
            found[item["path"]] = VolumeFile(content[item["key"]], _mode(item.get("mode"), mode))
        elif not reference.get("optional"):
            raise FieldError(f"references non-existent config key: {item['key']}")
    return found


def _downward(pod: Manifest, item: Mapping[str, Any], sources: Sources, mode: int) -> VolumeFile:
    if reference := item.get("fieldRef"):
        text = field_value(pod, reference.get("fieldPath", ""))
    else:
        reference = item.get("resourceFieldRef") or {}
        text = resource_value(pod, "", reference, sources.allocatable)
    return VolumeFile(text.encode(), _mode(item.get("mode"), mode))


_CURRENT = "..data"


def write_payload(directory: Path, files: Payload) -> bool:
    """Replace the files of a volume; returns whether any changed. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    current = directory / _CURRENT
    old = current.resolve() if current.is_symlink() else None
    if old is not None and _read(old) == files:
        return False
    new = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    new.chmod(0o755)
    for path, (data, mode) in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
    link = directory / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    link.replace(current)
    tops = {Path(path).parts[0] for path in files}
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"{_CURRENT}/{top}")
    for entry in directory.iterdir():
        if entry.is_symlink() and entry.name != _CURRENT and entry.name not in tops:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _read(directory: Path) -> Payload:
    return {
        os.path.relpath(file, directory): VolumeFile(file.read_bytes(), file.stat().st_mode & 0o7777)
        for file in directory.rglob("*")
        if file.is_file()
    }


class Sandbox:
    """The directory of one pod."""

    def __init__(self, state: Path, uid: str) -> None:
        self.path = state / "pods" / uid
        self.hosts = self.path / "etc" / "hosts"

    def prepare(self, pod: Manifest, sources: Sources) -> dict[str, Path]:
        """Set up the pod's volumes; returns their directories (or files) by name.

        Raises Missing, OSError.
        """
        self.hosts.parent.mkdir(parents=True, exist_ok=True)
        (self.path / "etc" / "hostname").write_text(f"{hostname_of(pod)}\n", encoding="utf-8")
        return {volume["name"]: self._volume(pod, volume, sources) for volume in pod["spec"].get("volumes") or ()}

    def refresh(self, pod: Manifest, sources: Sources) -> None:
        """Update the files of ConfigMaps, Secrets and the downward API. Raises Missing, OSError."""
        for volume in pod["spec"].get("volumes") or ():
            files = payload(pod, volume, sources)
            if files is not None:
                write_payload(self._own(volume), files)

    def _own(self, volume: Mapping[str, Any]) -> Path:
        return self.path / "volumes" / str(volume["name"])

    def _volume(self, pod: Manifest, volume: Mapping[str, Any], sources: Sources) -> Path:
        files = payload(pod, volume, sources)
        if files is not None:
            write_payload(self._own(volume), files)
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
        """Return the working directory of a container that names none."""
        return _directory(self.path / "work" / container, 0o777)

    def termination_log(self, container: str) -> Path:
        """Return the file of a container's termination message, empty."""
        file = self.path / "termination" / container
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        file.chmod(0o666)
        return file

    def log(self, container: str, attempt: int) -> Path:
        """Return the log of a run."""
        return self.path / "logs" / container / f"{attempt}.log"

    def remove(self) -> None:
        """Remove the directory; the data of claims is stored elsewhere."""
        shutil.rmtree(self.path, ignore_errors=True)


def hostname_of(pod: Manifest) -> str:
    """Return `spec.hostname` or the pod's name, cut to the length of a host name."""
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
