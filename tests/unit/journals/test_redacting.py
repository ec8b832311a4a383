"""Redaction: no original word is left, pseudonyms sort and combine as the words did, and replays decide the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.changes import CHANGES, change
from tests.oracle.confs import text
from tests.oracle.contests import contested
from tests.oracle.partitions import partitioned
from tests.oracle.worlds import Mix
from tests.scenario.scheduling.harness import actions, plugins, profile
from tests.unit.journals.writing import Writer
from tests.unit.scheduling.journal_recorder import Recorder
from volcanoio.bus.journal import JournalError, read_journal
from volcanoio.bus.records import EventRecord
from volcanoio.compose.journals import redacting
from volcanoio.compose.journals.redacting import JournalRedaction, Pseudonyms, redact_state, vocabulary
from volcanoio.engine.jobs.pods.manifests import mounts
from volcanoio.engine.jobs.pods.plugins import CONTENT_ANNOTATION
from volcanoio.engine.scheduling.cluster.node_columns import node_hash
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.offline.replay import replay
from volcanoio.framework.events import Observed
from volcanoio.model.base import Manifest, ObjectMeta
from volcanoio.model.batch import Job
from volcanoio.model.core import Node, Pod

WORDS = st.text("abyz019", min_size=1, max_size=4)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map("-".join)


def learned(*texts: str) -> Pseudonyms:
    found = Pseudonyms()
    for each in texts:
        found.learn(json.dumps({"name": each}))
    found.complete()
    return found


def replaced(found: Pseudonyms, text_: str) -> str:
    result: str = json.loads(found.replace(json.dumps(text_)))
    return result


@given(st.lists(NAMES, min_size=2, max_size=12, unique=True))
def test_pseudonyms_are_distinct_and_sort_as_the_names_did(names: list[str]) -> None:
    found = learned(*names, "default", "zone")
    both = sorted([*names, "default", "zone"])
    pseudonyms = [replaced(found, name) for name in both]
    assert sorted(pseudonyms) == pseudonyms
    assert len(set(pseudonyms)) == len(set(both))


@given(NAMES, NAMES, st.sampled_from("-./:_ ,"))
def test_a_name_that_is_made_of_others_fits_to_them(one: str, other: str, separator: str) -> None:
    found = learned(one, other)
    assert replaced(found, f"{one}{separator}{other}") == replaced(found, one) + separator + replaced(found, other)


@pytest.mark.parametrize(
    "kept",
    [
        "100", "500m", "16Gi", "1m30s", "2026-01-01T00:00:00Z", "8a51e775-12d9-475b-9485-4cbd734df8d1", "true",
        "nodes.kubernetes.io/unschedulable", "NoSchedule", "v1", "worker-3", "127.0.0.1", "Running", "cpu",
    ],
)  # fmt: skip
def test_what_has_a_meaning_stays(kept: str) -> None:
    assert replaced(learned(kept), kept) == kept


@pytest.mark.parametrize("secret", ["acme", "registry.acme.io/team/llm:v2", "10.20.30.40", "gpu-rack7", "Zürich"])
def test_other_words_are_replaced(secret: str) -> None:
    shown = replaced(learned(secret), secret)
    for word in re.findall(r"[^\W\d_]{3,}", secret):
        assert word in vocabulary() or word not in shown
    assert "10.20.30.40" not in shown
    assert replaced(learned(secret, secret), secret) == shown, "the same again"


@pytest.mark.parametrize("word", ["a1b2c3d4e5f6", "summit2026ab", "deadbeef2026cafe", "0123456789abcdef" * 4])
def test_words_that_look_like_suffixes_and_digests_are_replaced(word: str) -> None:
    content = redact_state([{"kind": "Node", "metadata": {"name": f"rack-{word}", "labels": {"of": word}}}])
    assert word not in content.decode()


DIGEST = "0123456789abcdef" * 2
UID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"


def claiming() -> tuple[Manifest, Manifest]:
    """Return a Job with a volume, and the claim whose name the job controller derived from it."""
    job: Manifest = {
        "kind": "Job",
        "metadata": {"name": "x7train", "namespace": "default", "uid": UID},
        "spec": {"volumes": [{"mountPath": "/mnt/acme", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
    }
    claim = mounts(msgspec.convert(job, Job))[0].claim
    annotations = {CONTENT_ANNOTATION: DIGEST}
    return job, {"kind": "PersistentVolumeClaim", "metadata": {"name": claim, "annotations": annotations}}


def test_names_that_the_job_controller_derives_are_those_of_the_pseudonyms() -> None:
    content = redact_state(claiming())
    job, claim = json.loads(content)["items"]
    assert claim["metadata"]["name"] == mounts(msgspec.convert(job, Job))[0].claim
    assert (job["metadata"]["uid"], claim["metadata"]["annotations"][CONTENT_ANNOTATION]) == (UID, DIGEST)
    assert b"acme" not in content


def test_names_that_the_job_controller_derives_are_those_of_the_pseudonyms_in_a_journal(tmp_path: Path) -> None:
    job, claim = claiming()
    pod = Pod(metadata=ObjectMeta(name="x7train-0", labels={"claim": claim["metadata"]["name"]}))
    Writer(tmp_path / "journal", "controllers").see(msgspec.convert(job, Job), pod)
    JournalRedaction(tmp_path / "journal").write(tmp_path / "redacted")
    first, second = (
        each.event
        for each in read_journal(tmp_path / "redacted" / "controllers")
        if isinstance(each, EventRecord) and isinstance(each.event, Observed)
    )
    assert isinstance(first.object, Job)
    assert isinstance(second.object, Pod)
    assert second.object.metadata.labels == {"claim": mounts(first.object)[0].claim}


def test_words_to_keep_are_kept() -> None:
    found = Pseudonyms(frozenset({"acme"}))
    found.learn('["acme-x7q"]')
    found.complete()
    assert json.loads(found.replace('["acme-x7q"]'))[0].startswith("acme-")


def test_a_state_loses_environments_and_keeps_how_ties_between_nodes_end() -> None:
    node: Manifest = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "rackx7"}}
    pod = {"kind": "Pod", "spec": {"nodeName": "rackx7", "containers": [{"name": "c", "env": [{"value": "hush"}]}]}}
    content = redact_state([node, pod])
    assert b"hush" not in content
    assert b"rackx7" not in content
    first, second = json.loads(content)["items"]
    assert second["spec"]["nodeName"] == first["metadata"]["name"]
    again = msgspec.convert(first, Node)
    assert node_hash(again) == node_hash(Node(metadata=ObjectMeta(name="rackx7")))
    assert json.loads(redact_state([first]))["items"][0]["metadata"]["annotations"] == first["metadata"]["annotations"]


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names of the random clusters such as n1 be words without a meaning."""
    known = vocabulary() - set("nqtvr")
    monkeypatch.setattr(redacting, "vocabulary", lambda: known)


CONF = text(
    ", ".join(sorted(actions())),
    [[{"name": name} for name in sorted(set(plugins()) - {"extender", "capacity"})]],
)


@pytest.mark.usefixtures("few_words")
@pytest.mark.hypothesis
def test_a_redacted_journal_replays_to_the_same_decisions(tmp_path_factory: pytest.TempPathFactory) -> None:
    @examples(8)
    @given(partitioned(contested(Mix(rules=True))), st.lists(CHANGES, min_size=2, max_size=4), st.data())
    def check(objects: list[Manifest], changes: list[Any], data: st.DataObject) -> None:
        world = Recorder(*objects, conf=CONF)
        world.sync()
        for number, each in enumerate(changes):
            world.cycle()
            world.echo()
            change(world, each, data.draw, Mix(rules=True), 10 + number)
        world.cycle()
        directory = tmp_path_factory.mktemp("journal")
        writer = Writer(directory, "scheduler")
        writer.write(*(EventRecord(event=event) for event in world.journal))
        JournalRedaction(directory).write(directory / "redacted")
        events = [
            each.event for each in read_journal(directory / "redacted" / "scheduler") if isinstance(each, EventRecord)
        ]
        cycles = list(replay(events, ClusterState(), lambda event: profile(event.text)))
        assert len(cycles) == len(changes) + 1
        assert [cycle.cycle for cycle in cycles if not cycle.is_same] == []

    check()


def test_a_directory_without_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal; give the directory of --journal"):
        JournalRedaction(tmp_path)
