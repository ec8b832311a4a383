"""What client-go does: the Go tests of tests/goclient, each run on the cluster under test."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.contract.support import Cluster
from tests.goclient.building import MODULE, NotBuiltError, program

SECONDS = 60
_SOURCES = sorted((MODULE / "clients").glob("*_test.go"))
NAMES = [name for path in _SOURCES for name in re.findall(r"^func (Test\w+)", path.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("name", NAMES)
def test_go_client(cluster: Cluster, name: str) -> None:
    try:
        tests = program("clients")
    except NotBuiltError as error:
        pytest.skip(f"GO CLIENTS WERE NOT TESTED: {error}")
    ran = subprocess.run(
        [tests, "-test.v", f"-test.run=^{name}$", f"-test.timeout={SECONDS}s"],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=SECONDS + 10,
        check=False,
    )
    assert f"--- PASS: {name} " in ran.stdout, ran.stdout + ran.stderr
