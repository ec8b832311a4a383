"""The data directory: its lock, and errors of a directory that cannot be used."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text contains the reason and the fix."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class DataDirectoryBusy(DataDirectoryError):  # noqa: N818 - named for what is the case
    """Another server uses the directory; `pid` is its process, 0 when unknown."""

    def __init__(self, path: Path, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(path, f"{path} is in use by {who}; stop it, or choose another directory with --data")
        self.pid = pid


class DataDirectoryUnusable(DataDirectoryError):  # noqa: N818 - named for what is the case
    """The directory or its content cannot be read or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"{path} cannot be used: {reason}; choose another directory with --data")
        self.reason = reason


class DirectoryLock:
    """An exclusive lock on a directory, released when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Create and lock the directory; raises DataDirectoryBusy and DataDirectoryUnusable."""
        path = directory / "lock"
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            file = isinstance(error, FileExistsError | NotADirectoryError)
            why = "it is not a directory, or is below a file" if file else error.strerror or str(error)
            raise DataDirectoryUnusable(directory, why) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise DataDirectoryBusy(directory, int(holder) if holder.isdigit() else 0) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
