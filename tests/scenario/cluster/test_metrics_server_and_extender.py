"""Facts and answers from elsewhere, in a whole cluster: a metrics server and an extender decide where pods run.

That the run's journal replays to the same decisions, with neither of the two there any more, is checked by the harness.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.lowlevel
from aiohttp import web

from tests.scenario.cluster.harness import PATIENCE, cluster, job_manifest
from tests.unit.runtime.metrics_server import server, vector
from volcanoio.framework.scheduling.sources import NODE_METRICS
from volcanoio.model import kinds

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: usage
  - name: extender
    arguments:
      extender.urlPrefix: {address}
      extender.httpTimeout: 20s
      extender.predicateVerb: predicate
      extender.jobReadyVerb: ready
metrics:
  type: prometheus
  address: {address}
  interval: 1s
"""


async def test_pods_run_where_a_metrics_server_and_an_extender_want_them(tmp_path: Path) -> None:
    names: list[str] = []
    asked: dict[str, int] = {}

    async def answer(request: web.Request) -> web.Response:
        verb = request.path.rpartition("/")[2]
        asked[verb] = asked.get(verb, 0) + 1
        if verb == "query":  # all are busy but the last, which is what the scheduler is to find
            return vector(**{name: "3" if name == names[-1] else "70" for name in names})
        body = json.loads(await request.text())
        if verb == "predicate":
            return web.json_response({"status": "", "code": 0})
        placed = sum(bool(task["NodeName"]) for task in body["job"]["Tasks"].values())
        return web.json_response({"status": placed >= body["job"]["MinAvailable"]})

    async with server(answer) as address:
        conf = tmp_path / "scheduler.conf"
        conf.write_text(CONF.replace("{address}", address))
        async with cluster(nodes=3, scheduler_conf=conf) as there:
            names.extend(sorted(node.metadata.name for node in await there.client.list(kinds.NODE)))
            state = there.local.scheduler.scheduler.state
            with anyio.fail_after(PATIENCE):
                while not state.inputs.facts(NODE_METRICS):
                    await anyio.lowlevel.checkpoint()
            await there.create(job_manifest("gang", replicas=2, run="1s"))
            await there.job("gang", "Completed")
            nodes = {pod.spec.node_name for pod in await there.pods("gang")}
    assert nodes == {names[-1]}
    assert asked["predicate"] >= 3
    assert asked["ready"] >= 1
