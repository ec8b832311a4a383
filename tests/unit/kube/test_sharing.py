"""Readers of one process share what was decoded from a watch line, and see the same as readers apart."""

from __future__ import annotations

import msgspec

from tests.unit.apiserver.api import PODS, pod, running
from volcanoio.kube.decoding import ObjectDecoder
from volcanoio.kube.transport import SharedLine, SharedObject
from volcanoio.localcluster.apiserver.collection import Watcher
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.selection import Selection
from volcanoio.localcluster.apiserver.selectors import label_selector
from volcanoio.localcluster.apiserver.store import Store
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import POD, SERVICE


def _pod(**labels: str) -> Manifest:
    return {"metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": labels}}


def test_one_object_for_all_who_see_the_same_version() -> None:
    store = Store()
    everything, chosen = Watcher(), Watcher(Selection(labels=label_selector("in=yes")))
    for watcher in (everything, chosen):
        store.collection("pods").subscribe(watcher, 0)
    for labels in ({}, {"in": "yes"}, {"in": "no"}):
        store.put(Ref("pods", "default", "p"), _pod(**labels))
    all_lines, chosen_lines = everything.take(), chosen.take()
    first, second = ObjectDecoder(POD), ObjectDecoder(POD)
    seen = [first.line(data) for data in all_lines]
    entered, left = [second.line(data) for data in chosen_lines]
    assert [line.type for line in seen] == ["ADDED", "MODIFIED", "MODIFIED"]
    assert (entered.type, left.type) == ("ADDED", "DELETED")
    assert entered.object is seen[1].object
    assert left.object is not seen[2].object
    apart = [first.line(bytes(data)) for data in [*all_lines, *chosen_lines]]
    assert apart == [*seen, entered, left]


def test_each_type_is_decoded_on_its_own() -> None:
    line = SharedLine(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}')
    line.event, line.decoded = "ADDED", {}
    pod, service = ObjectDecoder(POD).line(line).object, ObjectDecoder(SERVICE).line(line).object
    assert (type(pod), type(service)) == (POD.type, SERVICE.type)


def test_who_does_not_care_reads_bytes() -> None:
    line = SharedLine(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}')
    line.event, line.decoded = "BOOKMARK", {}
    assert b"\n".join([line, line]).count(b"BOOKMARK") == 2
    assert isinstance(ObjectDecoder(POD).line(line).object, msgspec.Raw)
    assert not line.decoded


async def test_the_answer_to_a_write_is_decoded_with_its_watch_line() -> None:
    async with running() as api, api.transport.stream(PODS, query={"watch": "true"}) as batches:
        answer = await api.transport.request("POST", PODS, body=msgspec.json.encode(pod()))
        written = ObjectDecoder(POD).one(answer.body)
        (line,) = await anext(batches)
        assert ObjectDecoder(POD).line(line).object is written
        assert ObjectDecoder(POD).one(bytes(answer.body)) == written
        assert SharedObject.of(answer.body) is answer.body
