"""Schedulers that share a cluster: their Leases say what they take, and overlaps are logged."""

from __future__ import annotations

from typing import Any

import pytest
import structlog.testing

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio.compose.sharing import OverlapReporter, Share
from volcanoio.kube.transport import Response
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node

NODES = [Node(metadata=ObjectMeta(name=name, labels={"zone": name[0]})) for name in ("a1", "a2", "b1", "b2")]
OURS = Share(frozenset({"volcano"}), frozenset({("zone", "a")}))


def lease(name: str, share: Share | None, holder: str = "them") -> dict[str, Any]:
    annotations = share.annotations() if share else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"holderIdentity": holder}}


class Namespace:
    """The leases of a namespace, as a reporter finds them."""

    def __init__(self, *leases: dict[str, Any], share: Share = OURS) -> None:
        self.leases = list(leases)
        self.refused: Response | None = None

        async def script(call: Call) -> Response:
            assert (call.method, call.path) == ("GET", "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases")
            return self.refused or answer({"items": self.leases})

        self.reporter = OverlapReporter(
            ScriptedTransport(script), share, namespace="volcano-system", lease="volcano", nodes=lambda: NODES
        )

    async def warnings(self) -> list[dict[str, Any]]:
        with structlog.testing.capture_logs() as lines:
            await self.reporter.look()
        return [dict(line) for line in lines]


def test_a_share_is_read_from_its_annotations() -> None:
    for share in (OURS, Share(frozenset({"a", "b"}))):
        assert Share.of(share.annotations()) == share
    assert Share.of({}) is None


async def test_nodes_that_both_select_are_counted_and_reported_once() -> None:
    everything = Share(frozenset({"other"}))
    namespace = Namespace(lease("volcano", OURS), lease("other", everything), lease("vc-controller-manager", None))
    (line,) = await namespace.warnings()
    assert line["event"].startswith("another scheduler places pods on some of our nodes, which both may fill; give")
    assert (line["other"], line["nodes"], line["node_selector"]) == ("other", 2, "all nodes")
    assert await namespace.warnings() == []
    namespace.leases.pop(1)
    assert await namespace.warnings() == []
    namespace.leases.append(lease("other", everything))
    assert len(await namespace.warnings()) == 1


async def test_schedulers_of_other_nodes_and_ended_ones_are_not_reported() -> None:
    zone_b = Share(frozenset({"other"}), frozenset({("zone", "b")}))
    assert await Namespace(lease("b", zone_b), lease("ended", Share(frozenset({"x"})), holder="")).warnings() == []


async def test_a_name_that_both_have_is_reported() -> None:
    other = Share(frozenset({"volcano", "batch"}), frozenset({("zone", "b")}))
    (line,) = await Namespace(lease("batch", other)).warnings()
    assert (line["other"], line["scheduler_names"]) == ("batch", ("volcano",))


@pytest.mark.parametrize("body", [None, b"{"])
async def test_what_cannot_be_read_is_logged_once(body: bytes | None) -> None:
    namespace = Namespace()
    namespace.refused = refusal(403, "Forbidden", "leases is forbidden") if body is None else Response(200, body)
    (line,) = await namespace.warnings()
    assert line["event"] == "cannot look for other schedulers"
    assert await namespace.warnings() == []
