"""A Job in partitions on a whole cluster: enough of them start together, each whole or not at all."""

from __future__ import annotations

from collections import Counter

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.model import kinds, names
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

NODE = "cpu=5,memory=32Gi,pods=110"


def of_partition(pods: dict[str, Pod], phase: str) -> Counter[str]:
    """How many pods of which partition are in a phase."""
    return Counter(pod.metadata.labels[names.PARTITION_ID] for pod in pods.values() if pod.status.phase == phase)


async def test_as_many_partitions_run_as_have_room() -> None:
    async with cluster(nodes=1, node_resources=NODE) as c:
        manifest = job_manifest("parts", replicas=6, minimum=4, run="never")
        manifest["spec"]["tasks"][0]["partitionPolicy"] = {
            "totalPartitions": 3,
            "partitionSize": 2,
            "minPartitions": 2,
        }
        await c.create(manifest)
        groups = await c.until(kinds.POD_GROUP, PodGroup, bool, "its PodGroup")
        (group,) = groups.values()
        (policy,) = group.spec.sub_group_policy
        assert (policy.name, policy.sub_group_size, policy.min_sub_groups) == ("task", 2, 2)
        assert policy.match_label_keys == (names.PARTITION_ID,)
        pods = await c.until(
            kinds.POD, Pod, lambda all_: sum(pod.status.phase == "Running" for pod in all_.values()) == 4, "four"
        )
        # which two depends on the order in which the pods arrive
        whole = of_partition(pods, "Running")
        assert sorted(whole.values()) == [2, 2], "two whole partitions, though there is room for five"
        (left,) = {"0", "1", "2"} - whole.keys()
        assert of_partition(pods, "Pending") == {left: 2}
