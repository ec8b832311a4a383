"""The logs that the Python client follows, on a server where a test writes the status of pods."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tests.scenario.look.world import Written, pod_status, world
from volcanoio.client.connection import ClusterConnection
from volcanoio.client.following import follow_logs
from volcanoio.model import kinds
from volcanoio.model.batch import Job


async def test_a_restarted_container_is_followed_again() -> None:
    logs, ended = Written(), asyncio.Event()
    async with world(logs) as w, asyncio.timeout(20):
        uid = (await w.job("a", "Running", {"worker": 1}))["metadata"]["uid"]
        await w.pod("a", "worker", 0, "Running", "n")
        owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "a", "uid": uid}
        await w.client.patch(kinds.POD, "a-worker-0", {"metadata": {"ownerReferences": [owner]}}, "default")
        connection = ClusterConnection(None, "", "default", False)
        connection._client = w.client
        job = await w.client.get(kinds.JOB, "a", "default")
        assert isinstance(job, Job)
        async with aclosing(follow_logs(connection, job, ended=ended.wait, tail=None)) as lines:
            first = [(await anext(lines)).text for _ in range(2)]
            await w.status(kinds.POD, "a-worker-0", pod_status("Running", restarts=1))
            assert [(await anext(lines)).text for _ in range(2)] == first
            logs.ended.set()
            ended.set()
            assert [line.text async for line in lines] == ["a-worker-0 ends"] * 2
