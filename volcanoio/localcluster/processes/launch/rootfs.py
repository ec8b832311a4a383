"""A container's root directory: the host's, with volumes at their mount paths.

It is built on a tmpfs from bind mounts and becomes the root of a private mount namespace. Directories of the host are
bound whole. Only where a mount path does not exist on the host, the directories above it are *opened*: created again,
with each of their entries bound one by one, so nothing is ever created on the host itself.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence

from volcanoio.localcluster.processes.launch import syscalls
from volcanoio.localcluster.processes.launch.order import Mount

_LOCKED = (
    (os.ST_NOSUID, syscalls.MS_NOSUID),
    (getattr(os, "ST_NODEV", 4), syscalls.MS_NODEV),
    (getattr(os, "ST_NOEXEC", 8), syscalls.MS_NOEXEC),
)
"""Flags that a remount in a user namespace may not drop."""


def enter(root: str, mounts: Sequence[Mount]) -> None:
    """Change the root of the calling process to the container's.

    Raises OSError with the path that could not be mounted.
    """
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", root, "tmpfs", options="mode=0755")
    syscalls.mount("none", root, flags=syscalls.MS_UNBINDABLE)
    placed = [(resolve(one.target), one) for one in sorted(mounts, key=lambda one: one.target.count("/"))]
    _copy("/", root, opened_directories([target for target, _ in placed]))
    for target, one in placed:
        _place(root + target, one)
    _move_to(root)


def resolve(path: str) -> str:
    """Return a path of the host with the symbolic links of its existing part followed."""
    done = "/"
    parts = [part for part in path.split("/") if part and part != "."]
    for index, part in enumerate(parts):
        step = os.path.join(done, part)  # noqa: PTH118 - plain strings: this runs before each container
        if not os.path.lexists(step):
            return os.path.join(done, *parts[index:])  # noqa: PTH118 - as above
        done = os.path.realpath(step)
    return done


def opened_directories(targets: Iterable[str]) -> frozenset[str]:
    """Return the host's directories to recreate so that resolved targets can be created in them."""
    opened = {"/"}
    above: list[str] = []
    for target in sorted(targets, key=lambda one: one.count("/")):
        if any(target.startswith(f"{one}/") for one in above):
            continue  # created inside another volume
        above.append(target)
        if os.path.lexists(target):
            continue
        parent = os.path.dirname(target)  # noqa: PTH120 - as above
        while parent != "/":
            if os.path.isdir(parent):  # noqa: PTH112 - as above
                opened.add(parent)
            parent = os.path.dirname(parent)  # noqa: PTH120 - as above
    return frozenset(opened)


def _copy(directory: str, root: str, opened: frozenset[str]) -> None:
    """Mount a directory's entries under the new root; those that cannot be mounted are skipped."""
    for entry in os.scandir(directory):
        target = root + entry.path
        with contextlib.suppress(OSError):
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)  # noqa: PTH211, PTH115 - as above
            elif entry.path == "/proc":
                _processes(target)
            elif entry.is_dir(follow_symlinks=False):
                os.mkdir(target)  # noqa: PTH102 - as above
                if entry.path in opened:
                    _copy(entry.path, root, opened)
                    os.chmod(target, stat.S_IMODE(entry.stat().st_mode))  # noqa: PTH101 - as above
                else:
                    _bind(entry.path, target)
            else:
                _touch(target)
                _bind(entry.path, target)


def _processes(target: str) -> None:
    """Mount /proc of the container's own processes, or the host's where the kernel refuses."""
    os.mkdir(target)  # noqa: PTH102 - as above
    try:
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        syscalls.mount("proc", target, "proc", flags)
    except OSError:
        _bind("/proc", target)


def _place(target: str, one: Mount) -> None:
    if os.path.isdir(one.source):  # noqa: PTH112 - as above
        os.makedirs(target, exist_ok=True)  # noqa: PTH103 - as above
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        _touch(target)
    _bind(one.source, target)
    if one.read_only:
        flags = os.statvfs(target).f_flag
        kept = sum(flag for bit, flag in _LOCKED if flags & bit)
        syscalls.mount("none", target, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | kept)


def _bind(source: str, target: str) -> None:
    syscalls.mount(source, target, flags=syscalls.MS_BIND | syscalls.MS_REC)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _move_to(root: str) -> None:
    """Make `root` the root of this mount namespace, and unmount the old one."""
    os.chdir(root)
    try:
        syscalls.pivot_root(".", ".")
        syscalls.unmount(".", syscalls.MNT_DETACH)
    except OSError:  # the host's root is an initramfs
        syscalls.mount(root, "/", flags=syscalls.MS_MOVE)
        os.chroot(".")
    os.chdir("/")
