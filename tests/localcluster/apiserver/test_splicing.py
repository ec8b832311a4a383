"""What is spliced into stored pods comes to the same bytes as the general way, whatever the write holds."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.localcluster.apiserver.api import MERGE, PODS, STRATEGIC, Api, SetClock, pod, running
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored, decode, encode
from volcanoio.localcluster.apiserver.patches import strategic
from volcanoio.model.base import Manifest

GENERAL_WAY = {"fieldValidation": "Warn"}
"""A parameter with its default value, which no spliced write has."""

TEXTS = st.sampled_from(["", "True", "False", "null", 'a "quoted": null', '{"resourceVersion":"7"}'])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "Initialized", "PodScheduled"])},
        optional={
            "status": TEXTS,
            "reason": TEXTS | st.none(),
            "lastProbeTime": st.none(),
            "$patch": st.just("delete"),
        },
    ),
    max_size=4,
)
STATUSES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["main", "side"])},
        optional={
            "ready": st.booleans(),
            "restartCount": st.integers(0, 3),
            "state": st.sampled_from([{}, {"running": {}}, {"running": None, "terminated": {"exitCode": 1}}]),
        },
    ),
    max_size=2,
)
PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed"]) | st.none(),
        "conditions": CONDITIONS | st.none(),
        "containerStatuses": STATUSES,
        "podIP": TEXTS,
        "podIPs": st.lists(st.fixed_dictionaries({"ip": st.sampled_from(["1.2.3.4", "1.2.3.5"])}), max_size=2),
        "qosClass": st.sampled_from(["", "Burstable"]) | st.none(),
        "observedGeneration": st.integers(0, 2) | st.just(1.0),
        "unknown": st.just(1),
        "message": st.just(7) | TEXTS,
    },
)
ANNOTATIONS = st.dictionaries(st.sampled_from(["a", "resourceVersion"]), TEXTS | st.just("5"))


async def stored_after(
    annotations: dict[str, str],
    patches: list[tuple[str, Manifest]],
    added: dict[str, str],
    deleted: bool,
    query: dict[str, str],
) -> list[tuple[int, bytes, object]]:
    """What every write was answered and what was stored after it, of a pod that is bound, deleted or not, patched."""
    async with running(clock=SetClock()) as api, api.watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
        made = await api.made(PODS, {**pod(), "metadata": {"name": "p", "annotations": annotations}})
        meta: Manifest = {"name": "p", **({"annotations": added} if added else {})}
        bound = await api("POST", f"{PODS}/p/binding", {"metadata": meta, "target": {"name": "n1"}})
        assert bound.code == 201
        if deleted:
            assert (await api("DELETE", f"{PODS}/p")).code == 200
        found = []
        for kind, status in patches:
            answer = await api("PATCH", f"{PODS}/p/status", {"status": status}, kind=kind, **query)
            found.append((answer.code, *stored(api, made)))
        return found


def stored(api: Api, made: Manifest) -> tuple[bytes, object]:
    """The stored pod without its uid, and its fields for selectors; checks that encoding it again changes nothing."""
    one = api.server.store.get(Ref("pods", "default", "p"))
    assert isinstance(one, Stored)
    assert encode(decode(one.data)) == one.data
    again = Stored("default", "p", one.revision, decode(one.data))
    assert all(
        getattr(one, name) == getattr(again, name) for name in Stored.__slots__ if name not in {"fields", "data"}
    )
    return one.data.replace(made["metadata"]["uid"].encode(), b"UID"), one.fields


@examples(60)
@given(
    ANNOTATIONS,
    st.lists(st.tuples(st.sampled_from([STRATEGIC, MERGE]), PATCHES), max_size=3),
    ANNOTATIONS,
    st.booleans(),
)
def test_patches_of_a_status_store_the_same_either_way(
    annotations: dict[str, str], patches: list[tuple[str, Manifest]], added: dict[str, str], deleted: bool
) -> None:
    spliced = asyncio.run(stored_after(annotations, patches, added, deleted, {}))
    assert spliced == asyncio.run(stored_after(annotations, patches, added, deleted, GENERAL_WAY))


@given(PATCHES, PATCHES)
def test_a_plain_patch_merges_as_any(before: Manifest, patch: Manifest) -> None:
    known = strategic.apply({}, before) if is_mergeable(before) else {}
    body = encode(patch)
    if strategic.is_plain(body):
        expected: Any = strategic.apply({"status": decode(encode(known))}, {"status": decode(body)})
        assert {"status": strategic.apply_plain_status(decode(encode(known)), decode(body))} == expected


def is_mergeable(patch: Manifest) -> bool:
    return "unknown" not in patch


async def test_preconditions_of_a_spliced_patch() -> None:
    async with running() as api:
        made = await api.made(PODS, pod())
        other = {"metadata": {"uid": "other"}, "status": {"phase": "Running"}}
        assert (await api("PATCH", f"{PODS}/p/status", other, kind=STRATEGIC)).code == 422
        stale = {"metadata": {"resourceVersion": "1"}, "status": {"phase": "Running"}}
        assert (await api("PATCH", f"{PODS}/p/status", stale, kind=STRATEGIC)).code == 409
        meta = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
        fresh = await api(
            "PATCH", f"{PODS}/p/status", {"metadata": meta, "status": {"phase": "Running"}}, kind=STRATEGIC
        )
        assert fresh.code == 200
        again = await api("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, kind=STRATEGIC)
        assert again.body == fresh.body  # nothing changed, nothing is stored
