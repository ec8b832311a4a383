"""Events about pods that a fleet receives."""

from __future__ import annotations

from tests.localcluster.nodes.cluster import Cluster, cluster
from tests.localcluster.nodes.pods import manifest
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref


def _store_odd(cluster: Cluster, name: str) -> None:
    """A bound pod as our server would not take it, and another server may."""
    body = manifest(name)
    body["metadata"]["uid"] = name
    body["spec"]["containers"] = [{"name": 5}]
    cluster.server.store.put(Ref("pods", "default", name), body)


async def test_an_undecodable_pod_does_not_hide_others() -> None:
    async with cluster() as here:
        _store_odd(here, "listed")
        await here.submit("before")
        async with here.nodes():
            await here.until(lambda: here.phase("before") == "Running")
            _store_odd(here, "watched")
            await here.submit("after")
            await here.until(lambda: here.phase("after") == "Running")
            assert here.phase("listed") == ""
