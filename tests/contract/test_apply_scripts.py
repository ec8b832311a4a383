"""Random scripts of applies, updates and patches leave the same objects and managers on both servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.applyscripts import KINDS, differences, prepare
from tests.contract.embedded import embedded_server
from tests.contract.support import FOREIGN, Cluster, unique

SEEDS = range(4)


@pytest.mark.skipif(not os.environ.get(FOREIGN), reason=f"{FOREIGN} names no real server to compare with")
def test_both_servers_agree(tmp_path: Path) -> None:
    namespace = unique("applyscripts")
    with embedded_server(tmp_path) as kubeconfig:
        ours, theirs = Cluster.of(kubeconfig), Cluster.of(Path(os.environ[FOREIGN]))
        for cluster in (ours, theirs):
            prepare(cluster, namespace)
        found = [
            text
            for name, kind in KINDS.items()
            for seed in SEEDS
            for text in differences(ours, theirs, namespace, kind, f"{name}-{seed}")
        ]
        theirs.delete(f"/api/v1/namespaces/{namespace}")
        for cluster in (ours, theirs):
            cluster.close()
    assert not found, "\n".join(found)
