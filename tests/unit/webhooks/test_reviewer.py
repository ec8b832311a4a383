"""What a review reads: cached queues, the API server where the cache would refuse, and rights to queues."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.admission.objects import queue
from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.engine.admission.request import AdmissionSettings, Operation, Review, ReviewRequest, User
from volcanoio.kube.transport import Response, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Queue
from volcanoio.runtime.webhooks.queue_rights import QueueRights
from volcanoio.runtime.webhooks.reviewer import MOST_REFUSALS, AdmissionReviewer

ALICE = User(username="alice", uid="1", groups=("users",), extra={"scopes": ("a",)})
CONTROLLERS = User(username="controllers")
SUBJECTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
QUEUES, TEMPLATES = kinds.QUEUE.path(), kinds.JOB_TEMPLATE.path("ns")
NAMESPACE = kinds.NAMESPACE.path("", "ns")


class Cache:
    """Queues as an informer has them."""

    def __init__(self, *queues: ApiObject, synced: bool = True) -> None:
        self.objects = {obj.metadata.name: obj for obj in queues}
        self.is_synced = synced


class Server:
    """An API server with queues and templates, where users may use the queues in `usable`."""

    def __init__(self, *queues: Queue, templates: dict[str, Manifest] | None = None) -> None:
        self.queues = [kinds.QUEUE.manifest(each) for each in queues]
        self.templates = templates or {}
        self.namespace: dict[str, str] = {}
        self.usable: set[tuple[str, str]] = set()
        self.error: Response | TransportError | None = None
        self.transport = ScriptedTransport(self.answer)

    async def answer(self, call: Call) -> Response:
        if call.path == SUBJECTS:
            if isinstance(self.error, TransportError):
                raise self.error
            asked = (call.body["spec"]["user"], call.body["spec"]["resourceAttributes"]["name"])
            return self.error or answer({"status": {"allowed": asked in self.usable}}, 201)
        if call.path == QUEUES:
            return answer({"items": self.queues})
        if call.path == NAMESPACE:
            return answer({"metadata": {"name": "ns", "annotations": self.namespace}})
        if call.path == TEMPLATES:
            return answer({"items": []})
        name = call.path.removeprefix(f"{TEMPLATES}/")
        if name in self.templates:
            return answer({"metadata": {"name": name, "namespace": "ns"}, "spec": self.templates[name]})
        return refusal(404, "NotFound")

    def reviewer(self, cache: Cache | None = None) -> AdmissionReviewer:
        rights = QueueRights(self.transport, VirtualClock())
        settings = AdmissionSettings(trusted_users=(CONTROLLERS.username,), schedulers=("volcano",))
        return AdmissionReviewer(self.transport, settings, queues=cache, rights=rights)

    @property
    def reads(self) -> list[str]:
        return [call.path for call in self.transport.calls]


def restricted(name: str, parent: str = "root") -> Queue:
    made = queue(name, parent)
    return replace(made, metadata=replace(made.metadata, labels={"volcanoio.dev/restricted": "true"}))


def create(kind: Kind, spec: Manifest, **metadata: Any) -> ReviewRequest:
    manifest = {"metadata": {"name": "x", "namespace": "ns", **metadata}, "spec": spec}
    return ReviewRequest(operation=Operation.CREATE, resource=kind.resource, name="x", namespace="ns", object=manifest)


def job(queue: str, **metadata: Any) -> ReviewRequest:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    return create(kinds.JOB, {"queue": queue, "tasks": [{"replicas": 1, "template": template}]}, **metadata)


async def test_an_allowed_job_reads_the_cache_alone() -> None:
    server = Server()
    assert (await server.reviewer(Cache(queue("q"))).review(job("q"), ALICE)).allowed
    assert server.reads == []


@pytest.mark.parametrize("cache", [Cache(), Cache(queue("q", state="Closed")), Cache(synced=False)])
async def test_a_job_may_follow_its_queue_at_once(cache: Cache) -> None:
    """The cache does not have the queue yet, or not its state."""
    server = Server(queue("q"))
    assert (await server.reviewer(cache).review(job("q"), ALICE)).allowed
    assert server.reads == [QUEUES]


async def test_a_missing_queue_is_looked_for_once_more_and_refused() -> None:
    server = Server()
    answered = await server.reviewer(Cache()).review(job("q"), ALICE)
    assert answered.messages[0].startswith("spec.queue: unable to find job queue")
    assert server.reads == [QUEUES]


async def use(server: Server, request: ReviewRequest, user: User = ALICE) -> Review:
    cache = Cache(queue("default"), queue("q"), restricted("fast"), restricted("team"), queue("lane", "team"))
    return await server.reviewer(cache).review(request, user)


async def test_a_restricted_queue_needs_the_right() -> None:
    server = Server(restricted("fast"))
    (message,) = (await use(server, job("fast"))).messages
    assert message.startswith("spec.queue: user alice may not use queue fast, which is restricted (it has no such")
    assert server.transport.calls[0].body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "alice",
            "uid": "1",
            "groups": ["users"],
            "extra": {"scopes": ["a"]},
            "resourceAttributes": {
                "group": "scheduling.volcano.sh",
                "resource": "queues",
                "verb": "use",
                "name": "fast",
            },
        },
    }
    server.usable.add(("alice", "fast"))
    assert (await use(server, job("fast"))).allowed
    assert (await use(server, job("q"))).allowed
    (message,) = (await use(server, job("lane"))).messages
    assert "may not use queue lane, which is below queue team, which is restricted" in message


@pytest.mark.parametrize("error", [TransportError("connection refused"), refusal(403, "Forbidden", "no")])
async def test_a_right_that_cannot_be_checked_is_refused(error: Response | TransportError) -> None:
    server = Server()
    server.error = error
    (message,) = (await use(server, job("fast"))).messages
    assert "which is restricted (the right could not be checked: " in message


async def test_answers_are_kept_for_seconds() -> None:
    server, clock = Server(), VirtualClock()
    rights = QueueRights(server.transport, clock)
    reviewer = AdmissionReviewer(server.transport, AdmissionSettings(), queues=Cache(restricted("q")), rights=rights)
    for _ in range(3):
        assert not (await reviewer.review(job("q"), ALICE)).allowed
    assert len(server.reads) == 1
    server.usable.add(("alice", "q"))
    await clock.advance(5)
    assert (await reviewer.review(job("q"), ALICE)).allowed
    assert not (await reviewer.review(job("q"), User(username="bob"))).allowed
    assert len(server.reads) == 3


async def test_a_flow_needs_the_rights_to_the_queues_of_its_templates() -> None:
    server = Server(templates={"t": {"queue": "fast"}})
    flow = create(kinds.JOB_FLOW, {"flows": [{"name": "t"}, {"name": "later"}]})
    (message,) = (await use(server, flow)).messages
    assert message.startswith("spec.flows[0].name: user alice may not use queue fast")


async def test_children_of_controllers_were_reviewed_with_their_owners() -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "c", "uid": "1", "controller": True}
    server = Server(restricted("fast"))
    assert (await use(server, job("fast", ownerReferences=[owner]), CONTROLLERS)).allowed
    assert not (await use(server, job("fast", ownerReferences=[owner]))).allowed
    assert not (await use(server, job("fast"), CONTROLLERS)).allowed


async def test_for_a_pod_the_right_of_its_service_account_suffices() -> None:
    spec = {"schedulerName": "volcano", "serviceAccountName": "runner", "containers": []}
    pod = create(kinds.POD, spec, annotations={"scheduling.volcano.sh/queue-name": "fast"})
    server = Server()
    assert not (await use(server, pod)).allowed
    server.usable.add(("system:serviceaccount:ns:runner", "fast"))
    assert (await use(server, pod)).allowed


@pytest.mark.parametrize("kept", [queue("q"), restricted("q")])
async def test_a_command_to_a_queue_needs_the_right_to_update_it(kept: Queue) -> None:
    """Who may create Commands in a namespace could close the queues of all others."""
    server = Server()
    manifest = {"metadata": {"name": "c"}, "action": "CloseQueue", "target": {"kind": "Queue", "name": "q"}}
    asked = replace(create(kinds.COMMAND, {}), object=manifest)
    (message,) = (await server.reviewer(Cache(kept)).review(asked, ALICE)).messages
    assert message.startswith("target: user alice may not open or close queue q (it has no such right)")
    (question,) = server.transport.calls
    assert question.body["spec"]["resourceAttributes"]["verb"] == "update"
    server.usable.add(("alice", "q"))
    assert (await server.reviewer(Cache(kept)).review(asked, ALICE)).allowed
    of_job = replace(asked, object={**manifest, "target": {"kind": "Job", "name": "q"}})
    assert (await server.reviewer(Cache(kept)).review(of_job, User(username="bob"))).allowed


async def test_the_default_queue_of_a_namespace_needs_the_right() -> None:
    """The PodGroup of such a Job gets the queue that the namespace names."""
    server = Server()
    server.namespace = {"scheduling.volcano.sh/queue-name": "fast"}
    for request in (job(""), create(kinds.POD, {"schedulerName": "volcano", "containers": []})):
        (message,) = (await use(server, request)).messages
        assert "of namespace ns): user alice may not use queue fast" in message
    server.usable.add(("alice", "fast"))
    assert (await use(server, job("default"))).allowed


async def test_without_a_restricted_queue_nothing_more_is_read() -> None:
    server = Server()
    pod = create(kinds.POD, {"schedulerName": "volcano", "containers": []})
    for request in (job("default"), pod, create(kinds.JOB_FLOW, {"flows": [{"name": "t"}]})):
        assert (await server.reviewer(Cache(queue("default"))).review(request, ALICE)).allowed
    assert server.reads == []


async def test_a_group_with_an_invalid_name_is_not_read() -> None:
    server = Server()
    pod = create(kinds.POD, {"schedulerName": "volcano"}, annotations={"scheduling.k8s.io/group-name": "a/b"})
    assert (await use(server, pod)).allowed
    assert server.reads == ["/api/v1/namespaces/ns"]


async def test_a_denial_lists_few_missing_rights() -> None:
    queues = [restricted(f"q{number}") for number in range(100)]
    server = Server(*queues)
    flows = [{"name": f"t{number}", "patch": {"jobSpec": {"queue": f"q{number}"}}} for number in range(100)]
    answer = await server.reviewer(Cache(*queues)).review(create(kinds.JOB_FLOW, {"flows": flows}), ALICE)
    assert len(answer.messages) == MOST_REFUSALS == server.reads.count(SUBJECTS)


async def test_without_a_user_all_queues_are_open() -> None:
    server = Server()
    reviewer = server.reviewer(Cache(restricted("fast")))
    assert (await reviewer.review(job("fast"))).allowed


async def test_defaults_read_no_queues() -> None:
    server = Server()
    defaulted = await server.reviewer().default(job(""))
    assert defaulted.object is not None
    assert defaulted.object["spec"]["queue"] == "default"
    assert server.reads == []
