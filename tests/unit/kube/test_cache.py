"""The cache ends the same whatever order lists, watch events and responses to own writes come in."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.examples import examples
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.object_cache import ObjectCache
from volcanoio.model.base import ApiObject, ObjectMeta

NAMES = st.sampled_from(["a", "b", "c"])


def thing(name: str, uid: str, revision: int) -> ApiObject:
    return ApiObject(metadata=ObjectMeta(name=name, uid=uid, resource_version=str(revision)))


def reported(events: list[Observed]) -> list[tuple[str, str, int]]:
    return [(event.change.value, event.obj.metadata.uid, event.obj.metadata.revision) for event in events]


def test_the_higher_version_wins_and_the_echo_is_no_change() -> None:
    cache = ObjectCache("things")
    assert reported(cache.replace([thing("a", "1", 5)], 5)) == [("appeared", "1", 5)]
    changed = cache.own(thing("a", "1", 7))
    assert reported(changed) == [("changed", "1", 7)]
    assert changed[0].previous == thing("a", "1", 5)
    assert cache.appeared_or_changed(thing("a", "1", 6)) == []
    assert cache.appeared_or_changed(thing("a", "1", 7)) == []


def test_a_new_uid_under_an_old_name_is_gone_and_appeared() -> None:
    cache = ObjectCache("things")
    cache.replace([thing("a", "1", 5)], 5)
    assert reported(cache.appeared_or_changed(thing("a", "2", 9))) == [("gone", "1", 5), ("appeared", "2", 9)]
    assert cache.appeared_or_changed(thing("a", "1", 8)) == []


def test_an_own_delete_is_not_undone_by_events_under_way() -> None:
    cache = ObjectCache("things")
    cache.replace([thing("a", "1", 5)], 5)
    assert reported(cache.own_deleted("a", "1")) == [("gone", "1", 5)]
    assert cache.appeared_or_changed(thing("a", "1", 6)) == []
    assert cache.deleted(thing("a", "1", 7)) == []
    assert dict(cache.objects) == {}


def test_a_late_response_does_not_restore_an_object_missing_in_a_relist() -> None:
    cache = ObjectCache("things")
    cache.replace([], 20)
    assert cache.own(thing("a", "1", 10)) == []


def test_a_list_keeps_objects_written_after_it() -> None:
    cache = ObjectCache("things")
    cache.replace([thing("old", "1", 5)], 5)
    cache.own(thing("new", "2", 12))
    assert reported(cache.replace([], 10)) == [("gone", "1", 5)]
    assert list(cache.objects) == ["new"]


def test_with_selectors_an_object_may_leave_and_come_back() -> None:
    cache = ObjectCache("things", selective=True)
    cache.replace([thing("a", "1", 5)], 5)
    assert reported(cache.deleted(thing("a", "1", 6))) == [("gone", "1", 6)]
    assert reported(cache.appeared_or_changed(thing("a", "1", 8))) == [("appeared", "1", 8)]
    assert cache.own(thing("b", "2", 9)) == []


def test_tombstones_are_bounded() -> None:
    cache = ObjectCache("things", tombstones=2)
    for uid in ("1", "2", "3"):
        cache.own_deleted("a", uid)
    assert reported(cache.appeared_or_changed(thing("a", "1", 4))) == [("appeared", "1", 4)]
    assert cache.appeared_or_changed(thing("b", "3", 5)) == []


class AnyOrder(RuleBasedStateMachine):
    """A server, a watch that lags, a list that lags, and responses to our writes that come when they like."""

    def __init__(self) -> None:
        super().__init__()
        self.revision = 1  # a server's revisions never start at 0
        self.stored: dict[str, ApiObject] = {}
        self.history: list[tuple[str, ApiObject]] = []
        self.delivered = 0
        self.listing: tuple[list[ApiObject], int] | None = ([], 1)
        self.responses: list[tuple[str, ApiObject]] = []
        self.cache = ObjectCache("things")
        self.alive: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.dead: set[str] = set()

    def commit(self, what: str, name: str, uid: str, *, ours: bool) -> None:
        self.revision += 1
        obj = thing(name, uid, self.revision)
        if what == "DELETED":
            del self.stored[name]
        else:
            self.stored[name] = obj
        self.history.append((what, obj))
        if ours:
            self.responses.append((what, obj))

    def take(self, events: list[Observed]) -> None:
        """What consumers rely on: per name appeared, changed*, gone; versions only rise; the dead stay dead."""
        for event in events:
            meta = event.obj.metadata
            assert meta.uid not in self.dead
            if event.change is Change.APPEARED:
                assert meta.name not in self.alive
                self.alive[meta.name] = meta.uid
            else:
                assert self.alive[meta.name] == meta.uid
            if event.change is Change.GONE:
                del self.alive[meta.name]
                self.dead.add(meta.uid)
                assert meta.revision >= self.versions[meta.uid]
            else:
                assert meta.revision > self.versions.get(meta.uid, 0)
            self.versions[meta.uid] = meta.revision

    @rule(name=NAMES, ours=st.booleans())
    def write(self, name: str, ours: bool) -> None:
        known = self.stored.get(name)
        uid = known.metadata.uid if known else f"{name}{self.revision}"
        self.commit("MODIFIED" if known else "ADDED", name, uid, ours=ours)

    @rule(name=NAMES, ours=st.booleans())
    def delete(self, name: str, ours: bool) -> None:
        if known := self.stored.get(name):
            self.commit("DELETED", name, known.metadata.uid, ours=ours)

    @precondition(lambda self: self.responses)
    @rule(pick=st.integers(0, 99))
    def response(self, pick: int) -> None:
        what, obj = self.responses.pop(pick % len(self.responses))
        if what == "DELETED":
            self.take(self.cache.own_deleted(obj.metadata.key, obj.metadata.uid))
        else:
            self.take(self.cache.own(obj))

    @precondition(lambda self: self.listing is None and self.delivered < len(self.history))
    @rule()
    def watch(self) -> None:
        what, obj = self.history[self.delivered]
        self.delivered += 1
        self.take(self.cache.deleted(obj) if what == "DELETED" else self.cache.appeared_or_changed(obj))

    @precondition(lambda self: self.listing is None)
    @rule()
    def bookmark(self) -> None:
        if self.delivered == len(self.history):
            self.cache.progressed(self.revision)

    @rule()
    def list_is_made(self) -> None:
        self.listing = (list(self.stored.values()), self.revision)

    @precondition(lambda self: self.listing is not None)
    @rule()
    def list_arrives(self) -> None:
        assert self.listing is not None
        objects, revision = self.listing
        self.take(self.cache.replace(objects, revision))
        self.listing, self.delivered = None, revision - 1

    @invariant()
    def published_events_match_the_cache(self) -> None:
        assert {key: obj.metadata.uid for key, obj in self.cache.objects.items()} == self.alive

    def teardown(self) -> None:
        if self.listing is not None:
            self.list_arrives()
        while self.delivered < len(self.history):
            self.watch()
        while self.responses:
            self.response(0)
        assert dict(self.cache.objects) == self.stored


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = examples(200, stateful_step_count=40)
