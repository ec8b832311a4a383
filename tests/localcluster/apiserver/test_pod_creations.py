"""Pods of a spec that came before are what they would be in the general way."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.localcluster.apiserver.api import PODS, Api, SetClock, running
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored, decode, encode
from volcanoio.model.base import Manifest

GENERAL_WAY = {"fieldValidation": "Warn"}
"""A parameter with its default value, which no spliced write has."""

TEXTS = st.sampled_from(["", "a", "B-c", "-", "null", 'a "quoted": null'])
OWNERS = st.lists(
    st.fixed_dictionaries(
        {"apiVersion": st.sampled_from(["v1", ""]), "kind": st.just("Node"), "name": st.just("n"), "uid": TEXTS},
        optional={"controller": st.booleans() | st.none()},
    ),
    max_size=2,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["a", "b/c", "/"]), TEXTS, max_size=2) | st.none(),
        "annotations": st.dictionaries(st.sampled_from(["a", "resourceVersion"]), TEXTS | st.just(3), max_size=2),
        "ownerReferences": OWNERS,
        "finalizers": st.lists(st.sampled_from(["a.b/c", "c", ""]), max_size=2),
        "namespace": st.sampled_from(["default", "other", ""]),
        "generateName": st.sampled_from(["p", "-"]),
        "creationTimestamp": st.none() | st.just("2020-01-01T00:00:00Z"),
        "uid": TEXTS,
        "resourceVersion": st.sampled_from(["", "7"]),
        "unknown": st.just(1),
        "generation": st.just(7) | st.just("7"),
    },
)
SPECS = st.fixed_dictionaries(
    {"containers": st.just([{"name": "main", "image": "busybox"}])},
    optional={
        "nodeSelector": st.just({}),
        "schedulingGates": st.just([{"name": "g"}]),
        "terminationGracePeriodSeconds": st.sampled_from([-1, 5]),
        "hostname": st.sampled_from(["ok", "NOT"]),
        "unknown": st.just(1),
        "restartPolicy": st.sampled_from(["Never", "Sometimes"]),
    },
)
PARTS = st.dictionaries(
    st.sampled_from(["apiVersion", "kind", "status"]), st.sampled_from(["v1", "Pod", ""]), max_size=2
)


async def made(
    spec: Manifest, pods: list[tuple[Manifest, Manifest]], query: dict[str, str]
) -> list[tuple[int, object]]:
    """What is answered and stored for pods of one spec, after it has come twice."""
    async with running(clock=SetClock()) as api, api.watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
        found: list[tuple[int, object]] = []
        for at, (metadata, more) in enumerate([({}, {}), ({}, {}), *pods]):
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{at}", **metadata}, "spec": spec, **more}
            answer = await api("POST", PODS, body, **query)
            found.append((answer.code, stored(api, f"p{at}")))
        return found


def stored(api: Api, name: str) -> object:
    """The stored pod without its uid, and its fields for selectors; checks that encoding it again changes nothing."""
    one = api.server.store.get(Ref("pods", "default", name))
    if one is None:
        return None
    obj = decode(one.data)
    assert encode(obj) == one.data
    again = Stored("default", name, one.revision, obj)
    assert all(getattr(one, slot) == getattr(again, slot) for slot in Stored.__slots__ if slot != "fields")
    return one.data.replace(one.uid.encode(), b"UID"), one.fields


@examples(60)
@given(SPECS, st.lists(st.tuples(METADATA, PARTS), min_size=1, max_size=3))
def test_pods_of_a_known_spec_are_stored_the_same_either_way(
    spec: Manifest, pods: list[tuple[Manifest, Manifest]]
) -> None:
    assert asyncio.run(made(spec, pods, {})) == asyncio.run(made(spec, pods, GENERAL_WAY))


async def new_pod(api: Api, name: str) -> Manifest:
    """A pod of the spec that all have here."""
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    answer = await api("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return {"code": answer.code, **dict(answer.body)}


async def test_admission_is_repeated_when_its_inputs_change() -> None:
    async with running() as api:
        for name in ("a", "b", "c"):
            assert (await new_pod(api, name))["spec"]["priority"] == 0
        usual = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
        await api.made("/apis/scheduling.k8s.io/v1/priorityclasses", usual)
        for name in ("d", "e", "f"):
            assert (await new_pod(api, name))["spec"]["priority"] == 7
        limits = {"type": "Container", "defaultRequest": {"cpu": "1"}}
        namespace = "/api/v1/namespaces/default"
        await api.made(f"{namespace}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limits]}})
        for name in ("g", "h", "i"):
            pod = await new_pod(api, name)
            assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
            assert "kubernetes.io/limit-ranger" in pod["metadata"]["annotations"]
        await api("DELETE", f"{namespace}/limitranges/l")
        for name in ("j", "k", "l"):
            assert (await new_pod(api, name))["spec"]["containers"][0]["resources"] == {}
        account = await api.got(f"{namespace}/serviceaccounts/default")
        account["imagePullSecrets"] = [{"name": "s"}]
        assert (await api("PUT", f"{namespace}/serviceaccounts/default", account)).code == 200
        for name in ("m", "n", "o"):
            assert (await new_pod(api, name))["spec"]["imagePullSecrets"] == [{"name": "s"}]
        await api.made(f"{namespace}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "16"}}})
        assert [(await new_pod(api, name))["code"] for name in ("p", "q")] == [201, 403]


async def test_the_same_name_twice_is_refused() -> None:
    async with running() as api:
        for name in ("a", "b", "c"):
            assert (await new_pod(api, name))["code"] == 201
        again = await new_pod(api, "c")
        assert (again["code"], again["reason"]) == (409, "AlreadyExists")
        assert (await new_pod(api, "NOT"))["code"] == 422
