"""Webhook configurations: what is created, what is left to others, and what happens to changes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.engine.admission.resource_groups import ResourceGroup
from volcanoio.framework.probe import NoProbe
from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, NotFound
from volcanoio.kube.sender import WRITE_BOUND
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.certificates import Certificates, create
from volcanoio.runtime.webhooks.paths import IGNORED_TIMEOUT_SECONDS, MUTATING, PATHS, VALIDATING, Target, configuration
from volcanoio.runtime.webhooks.registration import ABSENT_SECONDS, Registration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = (PATHS["/jobs/validate"], PATHS["/pods/mutate"])
TARGET = Target(namespace="default", rows=ROWS)
JOBS, PODS = "volcano-admission-service-jobs-validate", "volcano-admission-service-pods-mutate"
HELD = create(TARGET.server_names(), NOW)
SETTINGS = AdmissionSettings(trusted_users=("controllers",))


@dataclass
class Registered:
    """A running registration and its API server."""

    client: Client
    registration: Registration
    clock: VirtualClock

    async def webhook(self, name: str) -> Manifest:
        """The webhook of a configuration, once everything that was wanted is written."""
        await self.clock.advance(0)
        kind = VALIDATING if name == JOBS else MUTATING
        stored = await self.client.get_raw(kind, name)
        webhook: Manifest = stored["webhooks"][0]
        return webhook

    async def bundle(self, name: str) -> bytes:
        return base64.b64decode((await self.webhook(name))["clientConfig"]["caBundle"])


@asynccontextmanager
async def registration(
    *stored: Manifest, target: Target = TARGET, held: Certificates = HELD, api: ApiServer | None = None
) -> AsyncIterator[Registered]:
    """Register with the configurations that others stored."""
    async with ApiServer.open(None).running() as api, anyio.create_task_group() as tasks:
        transport, clock = InProcessTransport(api), VirtualClock()
        client = Client(transport)
        for manifest in stored:
            await client.create(MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING, manifest)
        made = Registration(transport, target, clock=clock, probe=NoProbe())
        made.change(held, SETTINGS)
        tasks.start_soon(made.run)
        await clock.advance(0)
        yield Registered(client, made, clock)
        tasks.cancel_scope.cancel()


def theirs(row: str, **fields: Any) -> Manifest:
    """A configuration as Volcano's chart writes it."""
    manifest = configuration(PATHS[row], TARGET, SETTINGS, b"")
    del manifest["metadata"]["labels"], manifest["metadata"]["annotations"]
    del manifest["webhooks"][0]["matchConditions"], manifest["webhooks"][0]["clientConfig"]["caBundle"]
    manifest["webhooks"][0].update(fields)
    return manifest


async def test_missing_configurations_are_created() -> None:
    async with registration() as running:
        await running.registration.registered()
        jobs, pods = await running.webhook(JOBS), await running.webhook(PODS)
        assert await running.bundle(JOBS) == await running.bundle(PODS) == HELD.bundle
        service = {"name": "volcano-admission-service", "namespace": "default", "path": "/jobs/validate", "port": 443}
        assert jobs["clientConfig"]["service"] == service
        assert (jobs["name"], jobs["failurePolicy"], jobs["timeoutSeconds"]) == ("validatejob.volcano.sh", "Fail", 10)
        assert (pods["name"], pods["failurePolicy"]) == ("mutatepod.volcano.sh", "Ignore")
        assert pods["namespaceSelector"] == {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default", "kube-system"]}
            ]
        }
        assert pods["matchConditions"] == [{"name": "concerned", "expression": "false"}]


def webhook(path: str, settings: AdmissionSettings) -> Manifest:
    (found,) = configuration(PATHS[path], TARGET, settings, b"")["webhooks"]
    return dict(found)


def test_a_write_of_a_pod_ends_in_time_while_ignored_webhooks_hang() -> None:
    settings = AdmissionSettings(scheduler_name="default-scheduler")
    both = [webhook(path, settings) for path in ("/pods/mutate", "/pods/validate")]
    assert [each["failurePolicy"] for each in both] == ["Ignore", "Ignore"]
    assert sum(each["timeoutSeconds"] for each in both) < WRITE_BOUND


def test_commands_are_reviewed_if_they_are_for_queues() -> None:
    found = webhook("/queues/validate", SETTINGS)
    assert [(rule["resources"], rule["operations"], rule["scope"]) for rule in found["rules"]] == [
        (["queues"], ["CREATE", "UPDATE", "DELETE"], "Cluster"),
        (["commands"], ["CREATE", "UPDATE"], "Namespaced"),
    ]
    (condition,) = found["matchConditions"]
    assert condition["expression"].startswith("request.resource.resource != 'commands' || ")


def test_pods_of_our_schedulers_are_validated_even_if_they_have_to_wait_for_it() -> None:
    """Who may use a restricted queue would else depend on the webhooks being up, or on the size of the pod."""
    settings = AdmissionSettings(schedulers=("volcano", "other"), trusted_users=("controllers",))
    found = webhook("/pods/validate", settings)
    conditions = {each["name"]: each["expression"] for each in found["matchConditions"]}
    assert found["failurePolicy"] == "Fail"
    assert conditions["scheduler"] == 'object.spec.schedulerName in ["volcano", "other"]'
    assert conditions["author"] == '!(request.userInfo.username in ["controllers"])'
    assert "kube-system" in found["namespaceSelector"]["matchExpressions"][0]["values"]


def test_pods_of_the_default_scheduler_are_never_stopped() -> None:
    """If it is ours, they include what the admission needs to start again, such as the network."""
    settings = AdmissionSettings(scheduler_name="default-scheduler", schedulers=("volcano",))
    found = webhook("/pods/validate", settings)
    assert found["failurePolicy"] == "Ignore"
    assert 'in ["default-scheduler", "volcano"]' in str(found["matchConditions"])


@pytest.mark.parametrize(
    ("change", "reviewed"),
    [
        ({"annotations": {"cni.example.com/ip": "10.0.0.1"}}, False),
        ({"annotations": {"scheduling.volcano.sh/queue-name": "fast"}}, True),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, True),
        ({"annotations": {"volcano.sh/jdb-min-available": "1"}}, True),
        ({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}]}, True),
        ({"labels": {"a": "b"}}, False),
    ],
)
async def test_an_update_of_a_pod_is_reviewed_for_what_a_rule_concerns(change: Manifest, reviewed: bool) -> None:
    """No webhook answers at the URL, so that a reviewed update fails."""
    validating = configuration(PATHS["/pods/validate"], Target(url="https://127.0.0.1:1"), SETTINGS, b"")
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano"}
    async with ApiServer.open(None).running() as api:
        client = Client(InProcessTransport(api))
        await client.create(kinds.POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        await client.create(VALIDATING, validating)
        foreign = {"metadata": {"name": "q", "namespace": "default"}, "spec": {**spec, "schedulerName": "other"}}
        await client.create(kinds.POD, foreign)
        if reviewed:
            with pytest.raises(ApiError, match="failed calling webhook"):
                await client.patch(kinds.POD, "p", {"metadata": change}, "default")
        else:
            await client.patch(kinds.POD, "p", {"metadata": change}, "default")


async def test_missing_configurations_are_waited_for_where_they_are_not_created() -> None:
    async with registration(target=TARGET._replace(creates=False)) as running:
        with pytest.raises(NotFound):
            await running.webhook(JOBS)
        await running.client.create(VALIDATING, theirs("/jobs/validate"))
        await running.client.create(MUTATING, theirs("/pods/mutate"))
        await running.registration.registered()
        assert await running.bundle(PODS) == HELD.bundle


async def test_configurations_of_others_get_bundle_and_conditions_and_nothing_else() -> None:
    given = theirs("/jobs/validate", failurePolicy="Ignore", timeoutSeconds=3)
    async with registration(given) as running:
        webhook = await running.webhook(JOBS)
        assert await running.bundle(JOBS) == HELD.bundle
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
        assert [condition["name"] for condition in webhook["matchConditions"]] == ["spec-changed"]


async def test_an_empty_configuration_of_an_installer_is_filled_and_kept_up_to_date() -> None:
    metadata = {"name": PODS, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    async with registration({"kind": MUTATING.kind, "metadata": metadata}) as running:
        assert (await running.webhook(PODS))["failurePolicy"] == "Ignore"
        stored = await running.client.get_raw(MUTATING, PODS)
        assert stored["metadata"]["labels"] == metadata["labels"]
        await running.client.patch(MUTATING, PODS, {"webhooks": [{**stored["webhooks"][0], "timeoutSeconds": 1}]})
        running.registration.change(HELD, SETTINGS)
        assert (await running.webhook(PODS))["timeoutSeconds"] == IGNORED_TIMEOUT_SECONDS


async def test_conditions_follow_the_resource_groups() -> None:
    groups = (ResourceGroup(name="gpu", namespaces=("team",)),)
    async with registration() as running:
        running.registration.change(HELD, AdmissionSettings(resource_groups=groups, gated_schedulers=("volcano",)))
        (condition,) = (await running.webhook(PODS))["matchConditions"]
        assert condition["expression"] == (
            '(request.namespace in ["team"]) || '
            "object.metadata.?annotations[\"scheduling.volcano.sh/queue-allocation-gate\"].orValue('') == 'true'"
        )


async def test_a_renewed_bundle_is_written_and_a_removed_one_restored() -> None:
    async with registration() as running:
        fresh = create(TARGET.server_names(), NOW)
        running.registration.change(fresh, SETTINGS)
        assert await running.bundle(JOBS) == fresh.bundle
        await running.client.patch(VALIDATING, JOBS, {"webhooks": theirs("/jobs/validate")["webhooks"]})
        assert await running.bundle(JOBS) == fresh.bundle


async def test_a_larger_bundle_of_another_replica_stays() -> None:
    async with registration() as running:
        webhook = await running.webhook(JOBS)
        bundle = create(TARGET.server_names(), NOW).bundle + HELD.bundle
        webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        await running.client.patch(VALIDATING, JOBS, {"webhooks": [webhook]})
        await running.clock.advance(60)
        assert await running.bundle(JOBS) == bundle


async def test_a_deleted_configuration_comes_back_only_if_this_program_goes_on() -> None:
    """An uninstallation deletes the configurations while the program may still run for half a minute."""
    async with registration() as running:
        await running.registration.registered()
        await running.client.delete(VALIDATING, JOBS)
        await running.clock.advance(ABSENT_SECONDS - 1)
        with pytest.raises(NotFound):
            await running.webhook(JOBS)
        await running.clock.advance(61)
        assert await running.bundle(JOBS) == HELD.bundle


def test_a_url_takes_the_place_of_the_service() -> None:
    target = Target(url="https://127.0.0.1:8443/")
    webhook = configuration(ROWS[0], target, SETTINGS, b"")["webhooks"][0]
    assert webhook["clientConfig"] == {"url": "https://127.0.0.1:8443/jobs/validate", "caBundle": ""}
    assert target.server_names()[-2:] == ("volcano-admission-service.volcano-system.svc", "127.0.0.1")


def test_pods_are_validated_only_for_our_schedulers_and_not_those_of_our_controllers() -> None:
    settings = AdmissionSettings(schedulers=("volcano", "zone-b"), trusted_users=("controllers",))
    webhook = configuration(PATHS["/pods/validate"], TARGET, settings, b"")["webhooks"][0]
    conditions = {each["name"]: each["expression"] for each in webhook["matchConditions"]}
    assert conditions["scheduler"] == 'object.spec.schedulerName in ["volcano", "zone-b"]'
    assert conditions["author"] == '!(request.userInfo.username in ["controllers"])'
