"""Files of a volume on disk, changed all at once: they are links into a directory that is swapped.

Kubernetes: `pkg/volume/util/atomic_writer.go`; programs that watch `..data` work here as there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from volcanoio.localcluster.processes.payloads import File, Payload

_CURRENT = "..data"


def write(directory: Path, files: Payload) -> bool:
    """Make the files of a volume those given; whether anything changed. Raises OSError."""
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
        os.path.relpath(file, directory): File(file.read_bytes(), file.stat().st_mode & 0o7777)
        for file in directory.rglob("*")
        if file.is_file()
    }
