"""Which namespaces this machine gives to containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import structlog

from volcanoio.localcluster.processes.command import CommandNotStarted, start
from volcanoio.localcluster.processes.launch.order import NONE, ROOT, USER, LaunchOrder

_log = structlog.get_logger(__name__)


async def find_namespaces(root: Path) -> str:
    """The best way to have namespaces: ROOT, USER, or NONE where the kernel gives none. `root` is an empty directory.

    It is tried out with a command that does nothing.
    """
    if sys.platform != "linux":
        return NONE
    for kind in (ROOT, USER) if os.geteuid() == 0 else (USER,):
        order = LaunchOrder(
            argv=["true"], env={"PATH": os.environ.get("PATH", os.defpath)}, namespaces=kind, root=str(root)
        )
        try:
            command = await start(order)
        except CommandNotStarted as refused:
            _log.info("no namespaces", kind=kind, error=str(refused))
            continue
        await command.wait()
        command.streams.close()
        return kind
    return NONE
