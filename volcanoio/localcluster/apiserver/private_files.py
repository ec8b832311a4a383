"""Files that hold secrets: readable by their owner only, and never seen half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600, atomically: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
