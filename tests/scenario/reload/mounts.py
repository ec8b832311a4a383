"""Mounted configuration files of a scheduler, and actions that tests mount."""

from __future__ import annotations

from pathlib import Path

PLACES = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}]}]\n'


WAITS = 'actions: "enqueue"\ntiers: [{plugins: [{name: gang}]}]\n'


BAD = 'actions: "enqueue, alocate"\ntiers: [{plugins: [{name: gang}]}]\n'


MOUNTED = """
class Picky:
    name = "picky"

    def __init__(self, arguments):
        if arguments.get("fail"):
            raise RuntimeError("no such model")

    def feasible_on(self, shape, node):
        return "" if node.name == "{wanted}" else "picky"
"""


PICKY = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: picky}]}]\n'


class Mount:
    """A file as a ConfigMap's mount has it: a link to `..data/NAME`, and `..data` a link to the newest directory."""

    def __init__(self, directory: Path, name: str, text: str) -> None:
        self.directory, self.name, self.version = directory, name, 0
        self.write(text)
        (directory / name).symlink_to(Path("..data") / name)

    @property
    def path(self) -> Path:
        return self.directory / self.name

    def write(self, text: str) -> None:
        """As kubelet: a new directory, and the link renamed over the old one."""
        self.version += 1
        target = self.directory / f"..2026_{self.version}"
        target.mkdir()
        (target / self.name).write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(target.name)
        link.rename(self.directory / "..data")
