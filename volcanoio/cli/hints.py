"""What a user can type next, as it works from where they are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def typed(command: str) -> str:
    """`command` when it is on the PATH; else the path of the one beside our interpreter."""
    beside = Path(sys.executable).parent / command
    if shutil.which(command) or not beside.exists():
        return command
    relative = os.path.relpath(beside)
    return str(beside) if relative.startswith("..") else relative
