"""Admission, faults, and the in-process transport."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS, MERGE, PODS, STRATEGIC, config_map, pod, running
from volcanoio.kube.transport import TransportError
from volcanoio.localcluster.apiserver.admission.reviewers import AdmissionReply, AdmissionRequest
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule


@dataclass
class Labeller:
    """Labels new config maps, warns, refuses data `bad`, and does not let `kept` go."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    async def review(self, request: AdmissionRequest) -> AdmissionReply:
        if request.plural != "configmaps":
            return AdmissionReply()
        self.seen.append((request.operation, request.name))
        if request.operation == "DELETE":
            return AdmissionReply(allowed=request.name != "kept", message="kept is kept")
        assert request.object is not None
        if "bad" in request.object.get("data", {}):
            return AdmissionReply(allowed=False, message="data.bad: not allowed; leave it out", code=422)
        metadata = {**request.object["metadata"], "labels": {"seen": "yes"}, "uid": "forged"}
        return AdmissionReply(object={**request.object, "metadata": metadata}, warnings=("labelled",))


async def test_admission_changes_refuses_and_warns() -> None:
    reviewer = Labeller()
    async with running(admission=[reviewer]) as api:
        answer = await api("POST", CONFIG_MAPS, config_map("a"))
        assert answer.body["metadata"]["labels"] == {"seen": "yes"}
        assert answer.body["metadata"]["uid"] != "forged"
        assert answer.warning == '299 - "labelled"'
        refused = await api("POST", CONFIG_MAPS, config_map("b", bad="1"))
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert refused.message == "data.bad: not allowed; leave it out"
        assert (await api("GET", f"{CONFIG_MAPS}/b")).code == 404
        changed = await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"bad": "1"}}, kind=MERGE)
        assert changed.code == 422
        await api.made(CONFIG_MAPS, config_map("kept"))
        assert (await api("DELETE", f"{CONFIG_MAPS}/kept")).code == 403
        assert (await api("DELETE", f"{CONFIG_MAPS}/a")).code == 200
        assert ("DELETE", "a") in reviewer.seen


@dataclass
class Meddler:
    """Writes the object itself while it is asked about an update, a few times."""

    times: int
    write: object = None

    async def review(self, request: AdmissionRequest) -> AdmissionReply:
        if request.operation == "UPDATE" and self.times:
            self.times -= 1
            assert callable(self.write)
            await self.write()
        return AdmissionReply()


@pytest.mark.parametrize(("times", "code"), [(3, 200), (100, 409)])
async def test_a_patch_is_computed_again_when_the_object_changed_under_it(times: int, code: int) -> None:
    meddler = Meddler(0)
    async with running(admission=[meddler]) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        count = 0

        async def write() -> None:
            nonlocal count
            count += 1
            left, meddler.times = meddler.times, 0
            await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"n": str(count)}}, kind=MERGE)
            meddler.times = left

        meddler.write = write
        meddler.times = times
        answer = await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"mine": "1"}}, kind=MERGE)
        assert answer.code == code
        if code == 200:
            assert answer.body["data"] == {"mine": "1", "n": "3"}


async def test_a_status_before_the_commit_stores_nothing_and_one_after_it_does() -> None:
    faults = Faults(
        Rule("POST", "/configmaps$", "status", nth=1, code=429),
        Rule("POST", "/configmaps$", "status", when="after", nth=2, code=500),
    )
    async with running(faults=faults) as api:
        first = await api("POST", CONFIG_MAPS, config_map("a"))
        assert (first.code, first.reason) == (429, "TooManyRequests")
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 404
        assert (await api("POST", CONFIG_MAPS, config_map("b"))).code == 500
        assert (await api("GET", f"{CONFIG_MAPS}/b")).code == 200
        assert [one.method for one in faults.requests] == ["POST", "GET", "POST", "GET"]


async def test_resets_and_hangs_leave_the_outcome_unknown() -> None:
    faults = Faults(
        Rule("POST", "/binding$", "reset", when="after", nth=1),
        Rule("POST", "/binding$", "hang", nth=2),
    )
    async with running(faults=faults) as api:
        await api.made(PODS, pod())
        body = b'{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}'
        with pytest.raises(TransportError, match="reset"):
            await api.transport.request("POST", f"{PODS}/p/binding", body=body)
        assert (await api.got(f"{PODS}/p"))["spec"]["nodeName"] == "n1"
        await api.made(PODS, pod("q"))
        with pytest.raises(TransportError, match="no answer within"):
            await api.transport.request("POST", f"{PODS}/q/binding", body=body, timeout=0.01)
        assert "nodeName" not in (await api.got(f"{PODS}/q"))["spec"]


async def test_a_stream_is_no_answer_to_a_request() -> None:
    async with running() as api:
        with pytest.raises(TransportError, match="use stream"):
            await api.transport.request("GET", PODS, query={"watch": "true"})
        assert api.server.store.collection("pods").watchers == 0


async def test_status_writes_are_not_admitted_again() -> None:
    reviewer = Labeller()
    async with running(admission=[reviewer]) as api:
        await api.made(PODS, pod())
        patch = {"status": {"phase": "Running"}}
        assert (await api("PATCH", f"{PODS}/p/status", patch, kind=STRATEGIC)).code == 200
        assert reviewer.seen == []
