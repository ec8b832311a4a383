"""Whatever is bound, deleted and killed: no node runs more than it has, and everything comes to an end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.localcluster.nodes.cluster import PODS, SMALL, Cluster, cluster
from volcanoio.localcluster.nodes.hollow import NodeShape
from volcanoio.localcluster.nodes.pods.predicates import pod_requests
from volcanoio.model import names
from volcanoio.model.core import Pod
from volcanoio.model.resources import amounts

Step = tuple[Literal["bind", "delete", "force", "wait", "restart", "out"], int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["bind", "bind", "delete", "force", "wait", "restart", "out"]), st.integers(0, 5)),
    max_size=14,
)
CAPACITY = amounts(SMALL[0].resources)
NODE: tuple[NodeShape, ...] = SMALL


def running(api: Cluster) -> dict[str, int]:
    """What pods with a running container take together."""
    total: dict[str, int] = {}
    for manifest in api.all("pods"):
        pod = msgspec.convert(manifest, Pod)
        if any(status.state.running for status in pod.status.container_statuses):
            for name, amount in pod_requests(pod).items():
                total[name] = total.get(name, 0) + amount
    return total


async def play(steps: list[Step], lag: float) -> None:
    async with cluster() as api, AsyncExitStack() as stack:
        await stack.enter_async_context(api.nodes(NODE, kubelet_lag=lag, events=False))
        for number, (action, size) in enumerate(steps):
            pods = [pod["metadata"]["name"] for pod in api.all("pods")]
            match action:
                case "bind":
                    cpu = {"container": {"resources": {"requests": {"cpu": f"{250 * (1 + size)}m"}}}}
                    time = {names.RUN_DURATION: f"{1 + size}s", names.STOP_DURATION: f"{size}s"}
                    await api.submit(f"p{number}", annotations=time, **cpu)
                case "delete" | "force" if pods:
                    options = {"gracePeriodSeconds": 0} if action == "force" else {}
                    await api.call("DELETE", f"{PODS}/{pods[size % len(pods)]}", options)
                case "out":
                    change = {"metadata": {"annotations": {names.NODE_NOT_READY_AT: f"now,for={1 + size}s"}}}
                    await api.patch("/api/v1/nodes/node-0", change)
                case "restart":
                    await stack.aclose()
                    await stack.enter_async_context(api.nodes(NODE, kubelet_lag=lag, events=False))
            await api.clock.advance(size / 2)
            assert all(amount <= CAPACITY[name] for name, amount in running(api).items())
        await api.clock.advance(60)
        assert {api.phase(pod["metadata"]["name"]) for pod in api.all("pods")} <= {"Succeeded", "Failed"}
        assert all("deletionTimestamp" not in pod["metadata"] for pod in api.all("pods"))


@examples(30)
@given(steps=STEPS, lag=st.sampled_from([0.0, 1.5]))
def test_no_node_runs_more_than_it_has(steps: list[Step], lag: float) -> None:
    asyncio.run(play(steps, lag))
