"""Quotas as sums: never above what is allowed, whatever happens at once, and always what is there."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.localcluster.apiserver.api import MERGE, PODS, Api, pod, running
from volcanoio.framework.podusage import QuotaScope, scopes_of
from volcanoio.localcluster.apiserver.admission.quota import concerns, in_scope, usage
from volcanoio.localcluster.apiserver.admission.resource_amounts import Amount, amount, whole
from volcanoio.model.base import Manifest

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
PODS_ALLOWED, CPU_ALLOWED = 4, 6


@pytest.mark.parametrize(("text", "canonical"), [
    ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("512", "512"),
    ("1000Ki", "1000Ki"), ("0.5Gi", "512Mi"), ("1e3", "1e3"), ("2k", "2k"), ("2000", "2k"), ("0", "0"),
    ("-1500m", "-1500m"), ("100000001n", "100000001n"), ("1.5Ki", "1536"),
])  # fmt: skip
def test_amounts_are_shown_as_kubernetes_does(text: str, canonical: str) -> None:
    assert str(amount(text)) == canonical


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "i", "e"]))
def test_a_shown_amount_is_the_same_amount(nano: int, family: str) -> None:
    one = Amount(Fraction(nano, 10**9), family)
    assert amount(str(one)).value == one.value


def test_a_sum_is_shown_as_its_first_part() -> None:
    assert str(amount("0").plus(amount("1Gi"))) == "1Gi"
    assert str(amount("1Gi").plus(amount("1G"))) == "2073741824"
    assert str(amount("2Gi").minus(amount("1Gi"))) == "1Gi"


@pytest.mark.parametrize(("resource", "name", "counts"), [
    ("pods", "requests.cpu", True), ("pods", "count/pods", True), ("pods", "requests.nvidia.com/gpu", True),
    ("pods", "secrets", False), ("pods", "x.storageclass.storage.k8s.io/requests.storage", False),
    ("secrets", "secrets", True), ("leases.coordination.k8s.io", "count/leases.coordination.k8s.io", True),
    ("persistentvolumeclaims", "x.storageclass.storage.k8s.io/requests.storage", True),
    ("services", "services.nodeports", True),
])  # fmt: skip
def test_which_objects_count_for_which_name(resource: str, name: str, counts: bool) -> None:
    assert concerns(resource, name) == counts


def test_a_pod_uses_its_containers_or_its_largest_init_step() -> None:
    def container(cpu: str, **fields: Any) -> Manifest:
        return {"resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "containers": [container("1"), container("500m")],
        "initContainers": [container("200m", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "100m"},
    }
    assert usage("pods", {"metadata": {}, "spec": spec})["requests.cpu"] == amount("3300m")
    assert usage("pods", {"metadata": {}, "spec": spec, "status": {"phase": "Failed"}}) == {"count/pods": whole(1)}


def test_scopes_apply_to_pods_only() -> None:
    scopes = scopes_of(["NotTerminating"], None)
    assert scopes == (QuotaScope("NotTerminating"),)
    assert in_scope(scopes, "pods", {"spec": {"containers": []}})
    assert not in_scope(scopes, "secrets", {})
    term = {"namespaces": ["other"], "topologyKey": "zone"}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    assert in_scope((QuotaScope("CrossNamespacePodAffinity"),), "pods", {"spec": {"affinity": affinity}})


STEP = st.one_of(
    st.tuples(st.just("create"), st.integers(0, 9), st.integers(1, 4)),
    st.tuples(st.just("delete"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("finish"), st.integers(0, 9), st.just(0)),
)


@given(st.lists(st.lists(STEP, min_size=1, max_size=5), max_size=6))
def test_used_equals_existing_objects_and_never_exceeds_hard(rounds: list[list[tuple[str, int, int]]]) -> None:
    asyncio.run(_rounds(rounds))


async def _rounds(rounds: list[list[tuple[str, int, int]]]) -> None:
    async with running() as api:
        hard = {"pods": str(PODS_ALLOWED), "requests.cpu": str(CPU_ALLOWED), "count/pods": "100"}
        await api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        for steps in rounds:
            async with anyio.create_task_group() as tasks:
                for step in steps:
                    tasks.start_soon(_carry_out, api, *step)
            listed = (await api.got(PODS))["items"]
            living = [one for one in listed if one["status"]["phase"] != "Succeeded"]
            cpu = sum(int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in living)
            assert len(living) <= PODS_ALLOWED
            assert cpu <= CPU_ALLOWED
            expected = {"pods": str(len(living)), "requests.cpu": str(cpu), "count/pods": str(len(listed))}
            await api.until(f"{QUOTAS}/q", lambda answer, used=expected: answer.body["status"]["used"] == used)  # type: ignore[misc]  # a default binds the loop's value


async def _carry_out(api: Api, what: str, number: int, cpu: int) -> None:
    name = f"p{number}"
    if what == "create":
        body = pod(name)
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
        assert (await api("POST", PODS, body)).code in {201, 403, 409}
    elif what == "delete":
        assert (await api("DELETE", f"{PODS}/{name}")).code in {200, 404}
    else:
        change = {"status": {"phase": "Succeeded"}}
        assert (await api("PATCH", f"{PODS}/{name}/status", change, kind=MERGE)).code in {200, 404}


async def test_a_server_without_quotas_has_no_quota_watch() -> None:
    async with running() as api:
        before = list(api.server.core.store.observers)
        await api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
        assert len(api.server.core.store.observers) == len(before) + 1
        await api("DELETE", f"{QUOTAS}/q")
        assert api.server.core.store.observers == before
