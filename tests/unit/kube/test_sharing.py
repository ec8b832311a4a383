"""Parts that pods have alike are kept once, and nothing else about the pods changes."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.kube.decoding import ObjectDecoder
from volcanoio.kube.object_cache import MAX_SHARED, SharedParts
from volcanoio.kube.transport import SharedLine
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod

TEXTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2)
PODS = st.builds(
    lambda name, labels, annotations, requests, node, phase: {
        "metadata": {"name": name, "namespace": "ns", "labels": labels, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    },
    st.sampled_from(("p", "q")),
    TEXTS,
    TEXTS,
    st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "2")), max_size=2),
    st.sampled_from(("", "n1")),
    st.sampled_from(("Pending", "Running")),
)


@given(contents=st.lists(PODS, max_size=8))
def test_a_shared_pod_equals_one_that_is_not(contents: list[dict[str, object]]) -> None:
    shared = SharedParts()
    for content in contents:
        assert shared.of(msgspec.convert(content, Pod)) == msgspec.convert(content, Pod)


def test_pods_of_one_template_have_their_containers_in_common() -> None:
    shared = SharedParts()
    content = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    first, second = (shared.of(msgspec.convert(content, Pod)) for _ in range(2))
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels


def test_the_number_of_shared_parts_is_bounded() -> None:
    shared = SharedParts()
    for number in range(2 * MAX_SHARED):
        shared.of(msgspec.convert({"metadata": {"labels": {"n": str(number)}}}, Pod))
    assert len(shared._known) <= MAX_SHARED


def test_an_object_decoded_by_another_informer_is_reused() -> None:
    data = SharedLine(b'{"type":"ADDED","object":{"metadata":{"name":"p"},"spec":{"containers":[]}}}')
    data.event, data.decoded = "ADDED", {}
    made: list[ApiObject] = []
    first, second = (ObjectDecoder(kinds.POD, made=made.append).line(data) for _ in range(2))
    assert made == [first.object]
    assert second.object is first.object
