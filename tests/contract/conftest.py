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
from tests.contract.support import FOREIGN, Cluster, Namespace, settled, unique
from tests.contract.widgets import DEFINITION, definition


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that serves widgets."""
    with _kubeconfig(tmp_path_factory) as kubeconfig:
        cluster = Cluster.of(kubeconfig)
        yield _with_widgets(cluster)
        cluster.close()


def _kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> AbstractContextManager[Path]:
    foreign = os.environ.get(FOREIGN)
    return nullcontext(Path(foreign)) if foreign else embedded_server(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace of the test's own."""
    name = unique("contract")
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    settled(cluster, name)
    yield Namespace(cluster, name)
    pods = f"/api/v1/namespaces/{name}/pods"
    cluster.delete(pods, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    cluster.delete(f"/api/v1/namespaces/{name}")


def _with_widgets(cluster: Cluster) -> Cluster:
    collection = DEFINITION.rpartition("/")[0]
    if cluster.get(DEFINITION).code == 404:
        assert cluster.create(collection, definition()).code in {201, 409}, "made here, or by another worker"
    with cluster.watch(collection, fieldSelector=f"metadata.name={DEFINITION.rpartition('/')[2]}") as events:
        for event in events:
            conditions = event["object"].get("status", {}).get("conditions", [])
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                break
    return cluster
