"""One cluster for all tests that do not end theirs, with a directory of stub programs before its PATH."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.support import Namespace
from tests.scenario.run.up_process import UpProcess, up_process
from volcanoio.localcluster.processes.launch.order import NONE
from volcanoio.localcluster.processes.launcher import find_namespaces


@pytest.fixture(scope="session", autouse=True)
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the containers of these tests need of the kernel."""
    if asyncio.run(find_namespaces(tmp_path_factory.mktemp("root"))) == NONE:
        pytest.skip("THIS MACHINE GIVES NO NAMESPACES: running pods as processes is NOT tested here")


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of programs that the pods find first."""
    return tmp_path_factory.mktemp("stubs")


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, stubs: Path) -> Iterator[UpProcess]:
    """A running cluster."""
    with up_process(
        tmp_path_factory.mktemp("run"), "--memory", "--run-image=echoer*=echo from the image", path=[stubs]
    ) as one:
        yield one


@pytest.fixture
def namespace(running: UpProcess) -> Namespace:
    """A namespace of the test's own."""
    return running.namespace()
