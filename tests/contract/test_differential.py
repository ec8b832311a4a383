"""The same random requests are answered alike by the embedded server and by a real one.

Longer: `python -m tests.contract.differential.compare KUBECONFIG --seeds 0:1000`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.contract.differential.compare import differences
from tests.contract.differential.volcano import with_volcano
from tests.contract.embedded import embedded_server
from tests.contract.support import FOREIGN, Cluster
from tests.contract.widgets import with_widgets

LENGTH = 60
SEEDS = range(12)
"""They write most kinds. The recorded run (results/differential.json) is longer, and counts what still differs."""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The embedded server, beside the real one."""
    with embedded_server(tmp_path_factory.mktemp("embedded")) as kubeconfig:
        cluster = Cluster.of(kubeconfig)
        yield with_volcano(with_widgets(cluster))
        cluster.close()


@pytest.fixture(scope="module")
def real(cluster: Cluster) -> Cluster:
    """The real one, with Volcano's definitions as well."""
    return with_volcano(cluster)


@pytest.mark.skipif(not os.environ.get(FOREIGN), reason="there is no real control plane to compare with")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_are_answered_alike(seed: int, real: Cluster, embedded: Cluster) -> None:
    found = [str(one) for one in differences(seed, LENGTH, embedded, real)]
    assert not found, "\n".join(found)
