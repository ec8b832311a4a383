"""Every path over TLS: what is patched, what is denied, and which requests are no reviews."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import anyio.to_thread
import pytest
from volcanoio_plugins.job.mpi import MpiPlugin
from volcanoio_plugins.job.ssh import SshPlugin
from volcanoio_plugins.job.svc import SvcPlugin

from tests.unit.kube.scripted import Call
from tests.unit.webhooks.serving import hooks, patch_of, review_body, trusting
from volcanoio.engine.admission.request import AdmissionSettings, ReviewRequest
from volcanoio.engine.admission.resource_groups import ResourceGroup
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.webhooks import admission_review, reviewer
from volcanoio.runtime.webhooks.admission_review import DecodedReview
from volcanoio.runtime.webhooks.certificates import create, load_into
from volcanoio.runtime.webhooks.paths import DEFAULT_PATHS, PathError, parse_paths
from volcanoio.runtime.webhooks.server import LARGE, MOST_LARGE, review_seconds

PLUGINS = {plugin.name: plugin for plugin in (MpiPlugin, SshPlugin, SvcPlugin)}
GATE = "scheduling.volcano.sh/queue-allocation-gate"
SETTINGS = AdmissionSettings(
    job_plugins=PLUGINS,
    gated_schedulers=("volcano",),
    resource_groups=(ResourceGroup(name="gpu", namespaces=("team",), labels={"type": "gpu"}),),
)


def task(**more: Any) -> Manifest:
    return {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}, **more}


def job(name: str = "j", **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"tasks": [task()], **spec}}


def pod(annotations: dict[str, str], **spec: Any) -> Manifest:
    metadata = {"name": "p", "namespace": "team", "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": "volcano", "containers": [], **spec}}


def named(spec: Manifest, name: str = "x") -> Manifest:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


async def test_jobs_mutate() -> None:
    async with hooks(SETTINGS) as server:
        response = await server.review("/jobs/mutate", kinds.JOB, job(plugins={"mpi": []}))
        assert patch_of(response) == [
            {"op": "add", "path": "/metadata/annotations", "value": {"volcanoio.dev/creator": "alice"}},
            {"op": "add", "path": "/spec/maxRetry", "value": 3},
            {"op": "add", "path": "/spec/minAvailable", "value": 2},
            {"op": "add", "path": "/spec/plugins/ssh", "value": []},
            {"op": "add", "path": "/spec/plugins/svc", "value": []},
            {"op": "add", "path": "/spec/queue", "value": "default"},
            {"op": "add", "path": "/spec/schedulerName", "value": "volcano"},
            {"op": "add", "path": "/spec/tasks/0/maxRetry", "value": 3},
            {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": 2},
            {"op": "add", "path": "/spec/tasks/0/name", "value": "default0"},
        ]


@pytest.mark.parametrize(
    ("path", "kind", "manifest", "patch"),
    [
        (
            "/queues/mutate",
            kinds.QUEUE,
            named({"weight": 0}),
            [
                {"op": "add", "path": "/spec/reclaimable", "value": True},
                {"op": "replace", "path": "/spec/weight", "value": 1},
            ],
        ),
        (
            "/pods/mutate",
            kinds.POD,
            pod({GATE: "true"}),
            [
                {"op": "add", "path": "/spec/nodeSelector", "value": {"type": "gpu"}},
                {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]},
            ],
        ),
        ("/podgroups/mutate", kinds.POD_GROUP, named({"queue": "q"}), []),
    ],
)
async def test_other_objects_are_patched(path: str, kind: Kind, manifest: Manifest, patch: list[Manifest]) -> None:
    async with hooks(SETTINGS) as server:
        response = await server.review(path, kind, manifest)
        assert patch_of(response) == patch
        assert ("patchType" in response) is bool(patch)


async def test_podgroups_mutate_takes_the_queue_of_the_namespace() -> None:
    async with hooks() as server:
        response = await server.review("/podgroups/mutate", kinds.POD_GROUP, named({"queue": "default"}))
        assert patch_of(response) == [{"op": "replace", "path": "/spec/queue", "value": "q"}]


@pytest.mark.parametrize(
    ("path", "kind", "manifest"),
    [
        ("/jobs/validate", kinds.JOB, job(queue="q")),
        ("/podgroups/validate", kinds.POD_GROUP, named({"queue": "q"})),
        ("/queues/validate", kinds.QUEUE, named({"weight": 1, "reclaimable": True})),
        ("/pods/validate", kinds.POD, pod({"volcano.sh/jdb-min-available": "1"})),
        ("/hypernodes/validate", kinds.HYPER_NODE, named({"members": [{"type": "Node"}]})),
        ("/jobflows/validate", kinds.JOB_FLOW, named({"flows": [{"name": "a"}]})),
        ("/jobflows/validate", kinds.JOB_TEMPLATE, named(job()["spec"])),
        ("/cronjobs/validate", kinds.CRON_JOB, named({"schedule": "@daily", "jobTemplate": {"spec": job()["spec"]}})),
    ],
)
async def test_good_objects_are_allowed(path: str, kind: Kind, manifest: Manifest) -> None:
    async with hooks(SETTINGS) as server:
        assert await server.review(path, kind, manifest) == {"allowed": True}
        assert await server.review(path, kind, manifest, old=manifest, dryRun=True) == {"allowed": True}


@pytest.mark.parametrize(
    ("path", "kind", "manifest", "message"),
    [
        ("/podgroups/validate", kinds.POD_GROUP, named({"queue": "absent"}), "spec.queue: unable to find queue"),
        ("/queues/validate", kinds.QUEUE, named({"weight": 1, "parent": "absent"}), "spec.parent: failed"),
        ("/pods/validate", kinds.POD, pod({"volcano.sh/jdb-min-available": "0"}), "metadata.annotations[volcano"),
        ("/hypernodes/validate", kinds.HYPER_NODE, named({"members": []}), "spec.members: member must"),
        (
            "/jobflows/validate",
            kinds.JOB_FLOW,
            named({"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}),
            "spec.flows[0].dependsOn.targets",
        ),
        ("/cronjobs/validate", kinds.CRON_JOB, named({"schedule": "never"}), "spec.schedule: schedule is not a valid"),
        ("/jobs/validate", kinds.QUEUE, named({}), "/jobs/validate reviews jobs.batch.volcano.sh, not queues.sched"),
    ],
)  # fmt: skip
async def test_bad_objects_are_denied(path: str, kind: Kind, manifest: Manifest, message: str) -> None:
    async with hooks() as server:
        response = await server.review(path, kind, manifest)
        status = response["status"]
        assert (response["allowed"], status["code"], status["reason"]) == (False, 403, "Forbidden")
        assert message in status["message"]


async def test_all_problems_of_a_job_are_reported() -> None:
    async with hooks() as server:
        response = await server.review("/jobs/validate", kinds.JOB, job(minAvailable=3, queue="absent"))
        _, *lines = response["status"]["message"].split("\n- ")
        assert [line.partition(":")[0] for line in lines] == ["spec.minAvailable", "spec.queue"]


async def test_deleting_a_queue() -> None:
    async with hooks() as server:
        old = named({"weight": 1}, "default")
        response = await server.review("/queues/validate", kinds.QUEUE, None, old=old, name="default")
        assert "`default` queue can not be deleted" in response["status"]["message"]
        assert await server.review("/queues/validate", kinds.QUEUE, None, old=named({}, "q")) == {"allowed": True}


async def test_warnings_are_passed_on() -> None:
    async with hooks() as server:
        flow = {"metadata": {"name": "f", "namespace": "ns"}, "spec": {"flows": []}}
        response = await server.review("/jobflows/validate", kinds.JOB_FLOW, flow)
        assert response["allowed"] is True
        assert response["warnings"] == [
            "spec.flows: there are none, so nothing is run and the phase stays Pending; name templates"
        ]


async def test_requests_that_are_no_reviews() -> None:
    async with hooks() as server:
        good = review_body(kinds.JOB, job())
        assert (await server.post("/jobs/validate", good, "text/plain"))[0] == 415
        assert await server.post("/jobs/validate", b"{") == (
            400,
            b"the body is no AdmissionReview: Input data was truncated",
        )
        status, content = await server.post("/jobs/validate", b" " * (3 << 20) + good)
        assert (status, content) == (413, b"the body has more than 3145728 bytes")
        assert (await server.post("/nowhere", good))[0] == 404
        async with server.session.get(server.url + "/jobs/validate") as answer:
            assert answer.status == 405


def large() -> Manifest:
    """A Job of more than the size up to which reviews are made in the event loop."""
    return job(tasks=[task(name=f"t{number}") for number in range(1_000)])


@pytest.mark.parametrize("path", ["/jobs/validate", "/jobs/mutate"])
async def test_a_large_review_lets_others_be_answered_meanwhile(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, others_done = threading.Event(), threading.Event()
    works = {name: getattr(reviewer, name) for name in ("review", "with_defaults")}

    def slow(name: str, request: ReviewRequest, *more: Any) -> Any:
        if len(str(request.object)) > LARGE:
            begun.set()
            assert others_done.wait(60)
        return works[name](request, *more)

    for name in works:
        monkeypatch.setattr(reviewer, name, partial(slow, name))
    async with hooks() as server, anyio.create_task_group() as tasks:

        async def post() -> None:
            assert (await server.review(path, kinds.JOB, large()))["allowed"]

        tasks.start_soon(post)
        await anyio.to_thread.run_sync(begun.wait, 60)
        assert (await server.review("/queues/mutate", kinds.QUEUE, named({})))["allowed"]
        others_done.set()


async def test_few_large_reviews_are_made_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    decode = admission_review.decode

    def counted(body: bytes) -> DecodedReview:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        decoded = decode(body)
        with lock:
            at_once -= 1
        return decoded

    monkeypatch.setattr(admission_review, "decode", counted)
    async with hooks() as server, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(server.review, "/jobs/mutate", kinds.JOB, large())
    assert 0 < most <= MOST_LARGE


async def test_a_body_that_does_not_arrive_ends_and_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcanoio.runtime.webhooks.server.BODY_SECONDS", 0.01)
    monkeypatch.setattr("volcanoio.runtime.webhooks.server.MOST_REVIEWS", 1)
    async with hooks() as server:
        url = urlsplit(server.url)
        reading, writing = await asyncio.open_connection(url.hostname, url.port, ssl=trusting(server.held))
        head = "POST /jobs/validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writing.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        assert b"500" in await reading.readline()
        await reading.readuntil(b"admission has no answer in time; try again")
        writing.close()
        assert (await server.review("/jobs/validate", kinds.JOB, job(queue="q")))["allowed"]


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("10s", 9.0), ("0.1s", 0.9), ("1h", 9.0), ("", 9.0), ("nan", 9.0), ("inf", 27.0), ("-inf", 0.9), ("600s", 27.0)],
)
def test_a_review_takes_a_part_of_the_api_servers_timeout(timeout: str, seconds: float) -> None:
    assert review_seconds(timeout) == pytest.approx(seconds)


async def broken(call: Call) -> Response:
    raise TransportError(f"{call.method} {call.path}: connection refused")


async def test_a_review_that_cannot_be_made_leaves_the_decision_to_the_failure_policy() -> None:
    async with hooks() as server:
        server.transport.script = broken
        status, content = await server.post("/jobs/validate", review_body(kinds.JOB, job()))
        assert status == 500
        assert content.startswith(
            b"admission cannot read what it needs: GET /apis/scheduling.volcano.sh/v1beta1/queues"
        )


async def test_a_renewed_certificate_serves_new_connections_and_open_ones_stay() -> None:
    async with hooks() as server:
        await server.review("/queues/mutate", kinds.QUEUE, named({}))
        fresh = create(("localhost",), datetime.now(UTC))
        load_into(server.context, fresh)
        await server.review("/queues/mutate", kinds.QUEUE, named({}))  # on the connection of before
        body = review_body(kinds.QUEUE, named({}))
        headers = {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(fresh))) as session,
            session.post(server.url + "/queues/mutate", data=body, headers=headers) as answer,
        ):
            assert answer.status == 200


async def test_a_retiring_server_answers_new_connections_and_keeps_none() -> None:
    async with hooks() as server:
        url = urlsplit(server.url)
        reading, writing = await asyncio.open_connection(url.hostname, url.port, ssl=trusting(server.held))
        body = review_body(kinds.QUEUE, named({}))
        head = "POST /queues/mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        writing.write(request)
        assert b"200" in await reading.readline()
        server.server.retire()
        assert b"Connection: close" not in await reading.read()  # ends: the idle connection is closed
        writing.close()
        reading, writing = await asyncio.open_connection(url.hostname, url.port, ssl=trusting(server.held))
        writing.write(request)
        assert b"Connection: close" in await reading.read()
        writing.close()


def test_paths_are_volcanos() -> None:
    text = "/jobs/mutate, /jobs/validate,/jobs/mutate"
    assert [row.path for row in parse_paths(text)] == ["/jobs/mutate", "/jobs/validate"]
    assert set(DEFAULT_PATHS) == {
        "/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/podgroups/validate", "/queues/mutate",
        "/queues/validate", "/pods/mutate", "/pods/validate", "/hypernodes/validate", "/jobflows/validate",
        "/cronjobs/validate", "/nativegroups/validate",
    }  # fmt: skip
    with pytest.raises(PathError, match='there is no path /jobs/validat; did you mean "/jobs/validate"'):
        parse_paths("/jobs/validat")
    with pytest.raises(PathError, match="no path is given"):
        parse_paths(" ,")
