"""Help and version are there at once: what runs a cluster is loaded by the command that runs one, when it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"aiohttp", "asyncio", "cryptography", "kubernetes_asyncio", "msgspec", "numpy", "rich", "structlog", "yaml"}
ROOMS = {"client", "compose", "engine", "framework", "kube", "localcluster", "runtime", "web"}
PROGRAM = """
import click, sys
from volcanoio.cli.{module} import {group} as root

def reported(command, context):
    command.get_help(context)
    for name, below in getattr(command, "commands", {{}}).items():
        reported(below, click.Context(below, info_name=name, parent=context))

reported(root, click.Context(root, info_name="{group}"))
try:
    root.main(["version"])
except SystemExit:
    pass
print(*sys.modules)
"""


@pytest.mark.parametrize(("module", "group"), [("main", "volcanoio"), ("vcctl", "vcctl")])
def test_help_and_version_do_not_import_cluster_packages(module: str, group: str) -> None:
    program = PROGRAM.format(module=module, group=group)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.splitlines()[-1].split()
    assert f"volcanoio.cli.{module}" in names
    assert not HEAVY.intersection(names)
    assert not [name for name in names if name.startswith("volcanoio.") and name.split(".")[1] in ROOMS]
