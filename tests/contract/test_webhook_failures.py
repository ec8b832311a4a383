"""Webhooks that cannot be asked, or answer nonsense."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.support import Answer, Obj, config_map, pod
from tests.contract.webhooks import MUTATING, VALIDATING, Configured
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.kube.sender import WRITE_BOUND
from volcanoio.runtime.webhooks.paths import PATHS, Target, configuration


@contextmanager
def failing(configured: Configured, path: str, **fields: Any) -> Iterator[Answer]:
    """Return the response to a create while this webhook fails."""
    configured.install(VALIDATING, configured.hook(path) | fields)
    namespace = configured.namespace
    yield namespace.cluster.create(namespace.path("configmaps"), config_map("a"))


UNREACHABLE = {"url": "https://127.0.0.1:1/x"}
_CALL = 'Internal error occurred: failed calling webhook "fail.contract.volcanoio.dev": '


def test_a_match_condition_without_a_value_fails_the_write(configured: Configured) -> None:
    condition = {"name": "broken", "expression": "object.metadata.absent == 'x'"}
    with failing(configured, "/fail", matchConditions=[condition]) as answer:
        why = "expression 'object.metadata.absent == 'x'' resulted in error: no such key: absent"
        assert answer.refused(403, "Forbidden")["message"] == f'configmaps "a" is forbidden: {why}'


def test_an_unreachable_webhook_fails_the_write(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig=UNREACHABLE) as answer:
        status = answer.refused(500, "InternalError")
        reason = 'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
        assert status["message"] == f"{_CALL}failed to call webhook: {reason}"


def test_an_unreachable_webhook_may_be_ignored(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig=UNREACHABLE, failurePolicy="Ignore") as answer:
        answer.ok()


def test_an_untrusted_certificate_fails_the_write(configured: Configured) -> None:
    with failing(configured, "/fail", clientConfig={"url": f"{configured.hooks.url}/fail"}) as answer:
        status = answer.refused(500, "InternalError")
        assert "tls: failed to verify certificate: x509:" in status["message"]


def test_a_service_without_endpoints_fails_the_write(configured: Configured) -> None:
    service = {"name": "absent", "namespace": configured.namespace.name, "path": "/x"}
    with failing(configured, "/fail", clientConfig={"service": service}) as answer:
        status = answer.refused(500, "InternalError")
        assert 'service "absent" not found' in status["message"]


def test_a_slow_webhook_fails_the_write(configured: Configured) -> None:
    with silent() as url, failing(configured, "/fail", clientConfig={"url": url}, timeoutSeconds=1) as answer:
        status = answer.refused(500, "InternalError")
        assert status["message"].startswith(f'{_CALL}failed to call webhook: Post "{url}?timeout=1s": ')
        assert "context deadline exceeded" in status["message"]


def test_our_webhook_of_pods_may_hang_while_our_controllers_create_them(configured: Configured) -> None:
    """The API server lets the pod through before our write has to end."""
    settings = AdmissionSettings(gated_schedulers=("volcano",), schedulers=("volcano",))
    with silent() as url:
        (webhook,) = configuration(PATHS["/pods/mutate"], Target(url=url), settings, b"")["webhooks"]
        configured.install(MUTATING, {**webhook, "namespaceSelector": configured.hook("/x")["namespaceSelector"]})
        gated = pod("gated", schedulerName="volcano")
        gated["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-allocation-gate": "true"}
        namespace = configured.namespace
        namespace.cluster.create(namespace.path("pods"), gated, timeout=f"{WRITE_BOUND:g}s").ok()


@contextmanager
def silent() -> Iterator[str]:
    """Open a socket that accepts connections and sends nothing."""

    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/slow"


BAD_ANSWERS: list[tuple[Obj, str]] = [
    ({"uid": "other"}, 'received invalid webhook response: expected response.uid="'),
    (
        {"patch": "W10="},
        "received invalid webhook response: webhook returned response.patch but not response.patchType",
    ),
    (
        {"patchType": "JSONPatch"},
        "received invalid webhook response: webhook returned response.patchType but not response.patch",
    ),
]


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS)
def test_an_answer_that_breaks_the_protocol(configured: Configured, answer: Obj, text: str) -> None:
    configured.install(MUTATING, configured.hook("/fail", lambda request: {"allowed": True} | answer))
    namespace = configured.namespace
    refused = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    assert refused.refused(500, "InternalError")["message"].startswith(_CALL + text)


@pytest.mark.parametrize(("code", "text"), [
    (404, "failed to call webhook: the server could not find the requested resource"),
    (500, 'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding'),
])  # fmt: skip
def test_an_http_error(configured: Configured, code: int, text: str) -> None:
    hook = configured.hook("/fail")
    del configured.hooks.reviewers["/fail"]
    configured.hooks.raw["/fail"] = (code, b"boom")
    configured.install(VALIDATING, hook)
    namespace = configured.namespace
    refused = namespace.cluster.create(namespace.path("configmaps"), config_map("a"))
    assert refused.refused(500, "InternalError")["message"] == _CALL + text
