"""A journal is read as it was written, without secrets; a disk error ends it with a log line only."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.bus.event_bus import EventBus
from volcanoio.bus.journal import Journal, JournalError, JournalOptions, compare_decisions, read_journal
from volcanoio.bus.records import Codec, Configured, Decided, EventRecord, Opened, PluginSource, Record, Snapshot
from volcanoio.bus.redaction import redact
from volcanoio.framework.decisions import Act
from volcanoio.framework.effects import Create, Patch, PatchType
from volcanoio.framework.events import (
    Answered,
    Change,
    EffectFailed,
    EffectSucceeded,
    Event,
    Observed,
    Relisting,
    Synced,
    TimerFired,
)
from volcanoio.framework.probe import NoProbe
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest
from volcanoio.framework.scheduling_events import BindRefused, ConfigurationChanged, CycleOpened
from volcanoio.framework.scheduling_events import Decided as CycleDecided
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.batch import Job, JobAction, JobSpec, TaskSpec
from volcanoio.model.core import Container, Pod, PodSpec, Secret
from volcanoio.model.kinds import JOB, POD, SECRET

META = ObjectMeta(name="a", namespace="ns", uid="1", resource_version="7", labels={"env": "test"})
BEFORE = Pod(metadata=META, spec=PodSpec(containers=(Container(name="c", command=("run",)),)))
AFTER = msgspec.structs.replace(BEFORE, spec=PodSpec(node_name="n1"))


class BoundTogether(Event, frozen=True, kw_only=True):
    """An event of somebody else, with objects in other places than ours have them."""

    pods: tuple[Pod, ...]
    by_name: dict[str, ApiObject]
    note: Any = None


EVENTS: tuple[Event, ...] = (
    Observed(resource=POD.resource, change=Change.CHANGED, object=AFTER, previous=BEFORE),
    Observed(resource=POD.resource, change=Change.APPEARED, object=BEFORE),
    Synced(resource=POD.resource),
    Relisting(resource=POD.resource),
    EffectSucceeded(controller="c", key="k", effect_id=3, object=AFTER),
    EffectFailed(controller="c", key="k", effect_id=3, code=409, reason="Conflict", dropped=(4, 5)),
    TimerFired(controller="c", key="k", name="t"),
    Answered(controller="c", key="k", question=1, decision=Act(action=JobAction.RESTART_JOB), faults=(("p", "slow"),)),
    BindRefused(group="ns/g", uid="1", namespace="ns", name="a", node="n", code=403),
    CycleOpened(cycle=1, upto=12, seed=99),
    CycleDecided(
        cycle=1,
        decisions=(
            BindBatch(group="ns/g", cycle=1, binds=(BindRequest(uid="1", namespace="ns", name="a", node="n"),)),
            Patch(resource="podgroups", namespace="ns", name="g", patch={"status": {"phase": "Inqueue", "x": None}}),
        ),
    ),
    ConfigurationChanged(text="actions: enqueue", plugins={"gang": "1.0"}),
    BoundTogether(pods=(BEFORE, AFTER), by_name={"a": AFTER}, note=[1, None]),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_read_back_equal(event: Event) -> None:
    codec = Codec()
    reported = EventRecord(event=msgspec.structs.replace(event, seq=4, at=1.5, cause=2))
    assert codec.decode(codec.encode(reported)) == reported


@given(st.sampled_from(EVENTS), st.integers(0, 2**53), st.floats(0, 1e12), st.integers(0, 2**53))
def test_stamps_survive(event: Event, seq: int, at: float, cause: int) -> None:
    codec = Codec()
    reported = EventRecord(event=msgspec.structs.replace(event, seq=seq, at=at, cause=cause))
    assert codec.decode(codec.encode(reported)) == reported


def secretive(text: str = "hush") -> list[Any]:
    """The same secret in every place an event or effect may have it."""
    container = {"name": "c", "env": [{"name": "TOKEN", "value": text}], "envFrom": [{"prefix": text}]}
    template = {"spec": {"containers": [container], "initContainers": [container]}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": text}
    job = Job(
        metadata=msgspec.structs.replace(META, annotations=applied),
        spec=JobSpec(tasks=(TaskSpec(name="t", template=template),), plugins={"env": ("--kept",)}),
    )
    pod = {"kind": "Pod", **template}
    return [
        Observed(resource=JOB.resource, change=Change.CHANGED, object=job, previous=job),
        Observed(resource=SECRET.resource, change=Change.APPEARED, object=Secret(metadata=META, data={"k": text})),
        EffectSucceeded(controller="c", key="k", effect_id=1, object=Secret(metadata=META, data={"k": text})),
        EffectSucceeded(controller="c", key="k", effect_id=1, object=job),
        ((Create(resource=SECRET.resource, manifest={"data": {"key": text}}), Create(resource="pods", manifest=pod)),),
        Patch(resource=SECRET.resource, namespace="ns", name="s", patch={"data": {"key": text}}),
        Patch(
            resource=SECRET.resource,
            namespace="ns",
            name="s",
            type=PatchType.JSON,
            patch=[{"op": "add", "path": "/data/key", "value": text}],
        ),
        Patch(
            resource=JOB.resource,
            namespace="ns",
            name="j",
            type=PatchType.JSON,
            patch=[
                {"op": "add", "path": "/spec/tasks/0/template/spec/containers/0/env/-", "value": {"value": text}},
                {"op": "replace", "path": "/spec/tasks/0/template/spec/containers/0", "value": container},
                {"op": "replace", "path": "/spec/tasks/0/template/spec/containers", "value": [container]},
                {"op": "replace", "path": "/spec/tasks/0/template", "value": template},
            ],
        ),
        {"state": [job, {"nested": job}]},
    ]


@pytest.mark.parametrize("value", secretive())
def test_no_secret_reaches_the_disk(value: Any) -> None:
    codec = Codec()
    record: Record = EventRecord(event=value) if isinstance(value, Event) else codec.decided("c", "k", 1, value)
    line = codec.encode(record)
    assert b"hush" not in line
    assert b"TOKEN" not in line
    assert b"hush" not in codec.encode(Snapshot(before=1, state=value))
    codec.decode(line)


def test_private_keys_are_omitted_at_any_depth() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\nhush\n-----END RSA PRIVATE KEY-----"
    plugins = {"ssh": ["--ssh-private-key=hush", "-ssh-port=22"], "other": ["--key", pem]}
    assert redact({"spec": {"plugins": plugins}}) == {
        "spec": {"plugins": {"ssh": ["--ssh-private-key=redacted", "-ssh-port=22"], "other": ["--key", "redacted"]}}
    }


def test_the_job_plugin_env_and_other_plain_data_are_kept() -> None:
    job = secretive()[0]
    assert b'"plugins":{"env":["--kept"]}' in Codec().encode(EventRecord(event=job))
    harmless = {"kind": "ConfigMap", "data": {"a": "b"}, "spec": {"containers": None}}
    assert redact(harmless) == harmless


def written(directory: Path) -> list[Record]:
    return list(read_journal(directory))


def test_a_bus_is_recorded_with_decisions_configuration_and_plugins(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", process="controllers", now=lambda: 5.0)
    journal.configured("conf", "policies: []")
    journal.plugin("policies", "declared", "volcanoio 1")
    bus = EventBus(lambda: 9.0)
    bus.subscribe(journal.events)
    (event,) = bus.publish([Observed(resource=POD.resource, change=Change.APPEARED, object=AFTER)])
    effects = ((Create(id=1, resource="pods", manifest={"kind": "Pod"}),),)
    journal.decided("job", "ns/a", event.seq, effects)
    journal.close()
    assert [type(record) for record in written(tmp_path / "j")] == [
        Opened, Configured, PluginSource, Snapshot, EventRecord, Decided,
    ]  # fmt: skip
    *_, reported, decided = written(tmp_path / "j")
    assert reported == EventRecord(event=event)
    assert decided == Codec().decided("job", "ns/a", 1, effects)
    assert (tmp_path / "j" / "00000001.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("starts", "is_kept"), [(False, True), (True, False)])
def test_objects_are_kept_for_their_next_change_until_the_process_starts_again(starts: bool, is_kept: bool) -> None:
    codec = Codec()
    seen: list[Observed] = []
    for record in (
        EventRecord(event=Observed(resource=POD.resource, change=Change.APPEARED, object=BEFORE)),
        Opened(process="scheduler", version="0", at=0.0, starts=starts),
        EventRecord(event=Observed(resource=POD.resource, change=Change.CHANGED, object=AFTER, previous=BEFORE)),
    ):
        decoded = codec.decode(codec.encode(record))
        if isinstance(decoded, EventRecord) and isinstance(decoded.event, Observed):
            seen.append(decoded.event)
    assert seen[1].previous == BEFORE
    assert (seen[1].previous is seen[0].object) is is_kept


def test_segments_begin_with_the_number_of_their_first_event(tmp_path: Path) -> None:
    journal = Journal(tmp_path, process="p", now=lambda: 5.0, options=JournalOptions(segment_bytes=1))
    journal.plugin("g", "n", "o")
    bus = EventBus(lambda: 9.0)
    bus.subscribe(journal.events)
    for name in "abc":
        bus.publish([Synced(resource=name)])
        wait_until_written(journal)
    journal.close()
    assert len(list(tmp_path.iterdir())) == 3
    snapshots = [record for record in written(tmp_path) if isinstance(record, Snapshot)]
    assert snapshots == [Snapshot(before=number + 1) for number in range(3)]
    last = list(read_journal(tmp_path / "00000003.jsonl"))
    assert [type(record) for record in last] == [Opened, PluginSource, Snapshot, EventRecord]


def wait_until_written(journal: Journal) -> None:
    """The segment is full after every batch here, which the thread says when it has written it."""
    for _ in range(2000):
        if journal._segment_is_full:
            return
        threading.Event().wait(0.001)
    raise AssertionError


def test_a_new_process_appends_after_the_old_segments(tmp_path: Path) -> None:
    for process in ("one", "two"):
        journal = Journal(tmp_path, process=process, now=lambda: 5.0)
        journal.events((Synced(seq=1, resource="a"),))
        journal.close()
    openings = [record.process for record in written(tmp_path) if isinstance(record, Opened)]
    assert openings == ["one", "two"]


class Gauges(NoProbe):
    def __init__(self) -> None:
        self.on: list[float] = []

    def gauge(self, name: str, value: float, **labels: str) -> None:
        assert (name, labels) == ("volcanoio_journal_on", {"process": "p"})
        self.on.append(value)


def test_a_failing_disk_turns_it_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    probe = Gauges()
    journal = Journal(tmp_path / "file", process="p", now=lambda: 5.0, options=JournalOptions(probe=probe))
    journal.events((Synced(seq=1, resource="a"),))
    journal.close()
    assert not journal.active
    assert probe.on == [1.0, 0.0]
    assert "the journal is off" in capsys.readouterr().out
    journal.events((Synced(seq=2, resource="a"),))


def test_a_slow_disk_turns_it_off(tmp_path: Path) -> None:
    release = threading.Event()

    def stuck() -> float:
        release.wait(5)
        return 5.0

    journal = Journal(tmp_path, process="p", now=stuck, options=JournalOptions(max_waiting=10))
    journal.events(tuple(Synced(seq=seq, resource="a") for seq in range(1, 99)))
    assert not journal.active
    release.set()
    journal.close()


def test_a_line_cut_short_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path, process="p", now=lambda: 5.0)
    journal.events((Synced(seq=1, resource="a"),))
    journal.close()
    segment = tmp_path / "00000001.jsonl"
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5])
    assert [type(record) for record in written(tmp_path)] == [Opened, Snapshot]
    tag = EventRecord.__struct_config__.tag
    segment.write_bytes(whole + f'{{"record":"{tag}","event":{{"type":"Frog"}}}}\n'.encode())
    with pytest.raises(JournalError, match=r"line 4.*Frog"):
        written(tmp_path)
    segment.write_bytes(whole.replace(b'"format":1', b'"format":9'))
    with pytest.raises(JournalError, match="format 9"):
        written(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(JournalError, match="no segments"):
        written(empty)


def decision(key: str, cause: int, node: str, id_: int = 1) -> Decided:
    binds = tuple(
        BindRequest(uid=uid, namespace="ns", name=f"p{uid}", node=where) for uid, where in (("1", "n0"), ("2", node))
    )
    return Codec().decided("scheduler", key, cause, (BindBatch(id=id_, group=key, cycle=1, binds=binds),))


def test_the_first_difference_is_found_with_its_causes() -> None:
    events = {1: Synced(seq=1, resource="pods"), 2: CycleOpened(seq=2, cause=1, cycle=1, upto=1, seed=7)}
    recorded = [decision("ns/a", 2, "n1"), decision("ns/b", 2, "n1")]
    assert compare_decisions(recorded, [decision("ns/a", 2, "n1", id_=8), recorded[1]], events) is None
    difference = compare_decisions(recorded, [recorded[0], decision("ns/b", 2, "n2")], events)
    assert difference is not None
    assert (difference.position, difference.where) == (1, "effects[0].binds[1].node")
    assert difference.chain == (events[1], events[2])
    assert str(difference).endswith("differs at effects[0].binds[1].node; caused by Synced #1 → CycleOpened #2")


def test_a_missing_and_an_extra_decision_are_differences() -> None:
    one, two = decision("ns/a", 2, "n1"), decision("ns/b", 2, "n1")
    missing, extra = compare_decisions([one, two], [one]), compare_decisions([one], [one, two])
    assert missing is not None
    assert extra is not None
    assert "did not decide" in str(missing)
    assert "was not recorded" in str(extra)
