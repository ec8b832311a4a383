"""The cluster under test: the embedded server, or the one of the kubeconfig in VOLCANOIO_CONTRACT_KUBECONFIG.

On a cluster of somebody's own, the tests leave behind nothing but the definition of widgets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.contract.embedded import embedded_server
from tests.contract.hookserver import HookServer, hook_server
from tests.contract.kubectls import Kubectl, installed, login, newest
from tests.contract.support import FOREIGN, Cluster, Namespace, unique, wait_until_stable
from tests.contract.webhooks import Configured
from tests.contract.widgets import with_widgets


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that serves widgets."""
    with _kubeconfig(tmp_path_factory) as kubeconfig:
        cluster = Cluster.of(kubeconfig)
        yield with_widgets(cluster)
        cluster.close()


def _kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> AbstractContextManager[Path]:
    foreign = os.environ.get(FOREIGN)
    return nullcontext(Path(foreign)) if foreign else embedded_server(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each kubectl keeps what it caches."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(params=sorted(installed()))
def any_kubectl(request: pytest.FixtureRequest, namespace: Namespace, homes: Path) -> Kubectl:
    """Each kubectl of this machine in turn."""
    return login(request.param, namespace, homes)


@pytest.fixture
def kubectl(namespace: Namespace, homes: Path) -> Kubectl:
    """The newest kubectl."""
    return login(newest(), namespace, homes)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace of the test's own."""
    name = unique("contract")
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    wait_until_stable(cluster, name)
    yield Namespace(cluster, name)
    pods = f"/api/v1/namespaces/{name}/pods"
    cluster.delete(pods, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    cluster.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def hooks() -> Iterator[HookServer]:
    """A webhook server on loopback."""
    with hook_server() as server:
        yield server


@pytest.fixture
def configured(namespace: Namespace, hooks: HookServer) -> Iterator[Configured]:
    """Webhook configurations for the test's namespace."""
    found = Configured(namespace, hooks)
    yield found
    found.close()
    hooks.requests.clear()
