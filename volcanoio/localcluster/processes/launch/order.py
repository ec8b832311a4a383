"""The order to a launcher, as JSON on its control socket, and its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

CONTROL_FD = 3
"""The launcher's end of the control socket."""
ROOT, USER, NONE = "root", "user", "none"
"""How namespaces are had: as root, in a user namespace of one's own, or not at all."""


class Mount(NamedTuple):
    """A directory or file of the host shown at an absolute path of the container."""

    source: str
    target: str
    read_only: bool = False


class LaunchOrder(NamedTuple):
    """A command to be started.

    `namespaces` is ROOT, USER or NONE. `root` is an empty directory on which the container's root is put together.
    `enter` is the process id of a running container's first process whose namespaces are joined instead (exec).
    `uid` and `gid` -1 keep the server's. With `tty`, standard input becomes the controlling terminal.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str = "/"
    namespaces: str = NONE
    root: str = ""
    hostname: str = ""
    mounts: tuple[Mount, ...] = ()
    enter: int = 0
    uid: int = -1
    gid: int = -1
    groups: tuple[int, ...] = ()
    tty: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the order as it is sent."""
        return self._asdict() | {"mounts": [one._asdict() for one in self.mounts]}

    @classmethod
    def of(cls, data: dict[str, Any]) -> LaunchOrder:
        """Return the order that was received."""
        return cls(**{**data, "mounts": tuple(Mount(**one) for one in data["mounts"])})
