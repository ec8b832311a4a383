"""The store's law: what is listed now equals what was listed before, folded over what was watched since."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection, label_selector, reader
from volcanoio.localcluster.apiserver.storage.store import Store, Watcher
from volcanoio.model.base import Manifest

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", "z"]),
        st.one_of(st.none(), st.fixed_dictionaries({"color": st.sampled_from("rg"), "size": st.sampled_from("12")})),
    ),
    max_size=30,
)
_READ = reader(("data.size",))
_SELECTIONS: list[Callable[[], Selection]] = [
    Selection,
    lambda: Selection("a"),
    lambda: Selection("a", "x"),
    lambda: Selection(labels=label_selector("color=r")),
    lambda: Selection("b", labels=label_selector("color in (g)")),
    lambda: Selection(fields=(("data.size", True, "1"),), read=_READ),
    lambda: Selection(fields=(("data.size", False, "1"), ("metadata.name", False, "y")), read=_READ),
]
State = dict[tuple[str, str], Manifest]


def carry_out(store: Store, steps: list[tuple[str, str, dict[str, str] | None]]) -> None:
    for namespace, name, wanted in steps:
        ref = Ref("things", namespace, name)
        if wanted is not None:
            labels = {"color": wanted["color"]}
            metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}{name}", "labels": labels}
            store.put(ref, {"metadata": metadata, "data": {"size": wanted["size"]}})
        elif store.get(ref) is not None:
            store.remove(ref)


def listed(store: Store, selection: Selection) -> State:
    found = [one.decode() for one in store.collection("things").select(selection)]
    keys = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]
    assert keys == sorted(keys)
    return dict(zip(keys, found, strict=True))


def fold(state: State, lines: list[bytes]) -> State:
    for line in lines:
        event = msgspec.json.decode(line)
        meta = event["object"]["metadata"]
        key = (meta["namespace"], meta["name"])
        assert (key in state) == (event["type"] != "ADDED")
        if event["type"] == "DELETED":
            del state[key]
        else:
            state[key] = event["object"]
    return state


@given(_STEPS, _STEPS, st.sampled_from(range(len(_SELECTIONS))), st.booleans())
def test_a_list_is_the_fold_of_an_earlier_list_and_the_watch(
    before: list[tuple[str, str, dict[str, str] | None]],
    after: list[tuple[str, str, dict[str, str] | None]],
    which: int,
    late: bool,
) -> None:
    store = Store()
    carry_out(store, before)
    selection = _SELECTIONS[which]()
    state, since = listed(store, selection), store.revision
    watcher = Watcher(selection)
    if late:
        carry_out(store, after)
        store.collection("things").subscribe(watcher, since)
    else:
        store.collection("things").subscribe(watcher, since)
        carry_out(store, after)
    assert fold(state, watcher.take()) == listed(store, selection)


@given(_STEPS)
def test_versions_increase_and_indexes_agree(steps: list[tuple[str, str, dict[str, str] | None]]) -> None:
    store = Store()
    seen: list[int] = []
    store.observers.append(lambda _, event: seen.append(event.revision))
    carry_out(store, steps)
    assert seen == sorted(set(seen))
    for (namespace, name), stored in store.collection("things").objects.items():
        assert store.by_uid(stored.uid) == Ref("things", namespace, name)
        assert stored.decode()["metadata"]["resourceVersion"] == str(stored.revision)
