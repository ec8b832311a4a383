"""Which controllers run: Volcano's list, and what is left out without stopping the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from volcanoio.framework import entrypoints
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controllers.setup import kinds_of, known_kinds, make_controllers, select_controllers
from volcanoio.runtime.loading.registry import Candidate, PluginError, Registry, discover

KNOWN = ("a-controller", "gc-controller", "job-controller")


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ((), KNOWN),
        (("*", "-sharding-controller"), KNOWN),
        (("*", "-gc-controller"), ("a-controller", "job-controller")),
        (("gc-controller", "+a-controller"), ("a-controller", "gc-controller")),
        (("-*", "gc-controller"), ("gc-controller",)),
        (("-gc-controller", "*"), ("a-controller", "job-controller")),
        ((" * ", "", "-a-controller "), ("gc-controller", "job-controller")),
        (("+hyperNode-controller", "job-controller"), ("job-controller",)),
    ],
)
def test_the_list_selects_by_name(entries: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert select_controllers(entries, KNOWN) == names


@pytest.mark.parametrize(
    ("entries", "reported"),
    [
        (("gc-controller", "-gc-controller"), '"gc-controller" is given twice'),
        (("*", "*"), r'"\*" is given twice'),
        (("job-controler",), 'no controller "job-controler"; did you mean "job-controller"'),
        (("-gc-controller",), "nothing is left to run"),
        (("-*",), "nothing is left to run"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(entries: tuple[str, ...], reported: str) -> None:
    with pytest.raises(PluginError, match=reported):
        select_controllers(entries, KNOWN)


class Plain:
    """A controller that needs no context."""

    name = "plain"
    inputs: tuple[Input, ...] = (Input(kinds.POD, lambda pod: (pod.metadata.key,)),)
    references: tuple[Reference, ...] = ()
    rules: tuple[Rule, ...] = ()

    def start(self, key: str) -> int:
        return 0

    def reduce(self, state: int, event: Any, view: Any) -> Step[int]:
        return Step(state)


class WithContext(Plain):
    """One that takes it."""

    name = "reported"

    def __init__(self, context: ControllerContext) -> None:
        self.context = context


class Raises(Plain):
    name = "raises"

    def __init__(self) -> None:
        raise RuntimeError("no")


class Blind(Plain):
    name = "blind"
    inputs = ()


class Without(Plain):
    name = "without"
    rules = None  # type: ignore[assignment]  # that is what is wrong with it


class MyPod(ApiObject):
    """A pod with a Struct that no other controller uses."""


class OwnPod(Plain):
    name = "own-pod"
    inputs = (Input(Kind("", "v1", "Pod", "pods", MyPod), lambda pod: (pod.metadata.key,)),)


def registry(*classes: type) -> Registry:
    def found(cls: Any) -> Candidate:
        return Candidate(entrypoints.CONTROLLERS, cls.name, "mine 1.0", lambda: cls)

    return Registry(map(found, classes))


@pytest.mark.parametrize(
    ("odd", "reported"),
    [
        (Raises, "RuntimeError('no')"),
        (Blind, "it watches nothing"),
        (Without, "it has no rules; give it a tuple of Rule"),
        (OwnPod, "it reads pods as MyPod, others here as Pod; use theirs"),
    ],
)
def test_a_controller_that_raises_is_skipped_and_logged(odd: type, reported: str) -> None:
    found = registry(Plain, WithContext, odd)
    with capture_logs() as logs:
        made = make_controllers(found, found.names(entrypoints.CONTROLLERS), ControllerContext(scheduler_names=("x",)))
    assert [each.name for each in made] == ["plain", "reported"]
    assert made[1].context.scheduler_names == ("x",)  # type: ignore[attr-defined]  # it is WithContext
    (log,) = logs
    assert log["controller"] == odd.name  # type: ignore[attr-defined]  # they have
    assert reported in log["error"]


def test_each_resource_has_the_most_detailed_struct() -> None:
    class Mine(ApiObject):
        spec: dict[str, Any] = {}

    mine = Kind("example.com", "v1", "Mine", "mines", Mine)
    bare = Kind("example.com", "v1", "Mine", "mines", ApiObject)

    class First(Plain):
        inputs = (Input(bare, lambda obj: ()),)

    class Second(Plain):
        inputs = (Input(mine, lambda obj: ()),)
        references = (Reference(bare),)

    assert kinds_of(First(), Second()) == kinds_of(Second(), First()) == [mine]
    assert known_kinds((First(), Second(), Plain())) == [*kinds.ALL, mine]


def test_a_mounted_file_is_a_controller_like_any(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from volcanoio.framework.controller import Input, Step\n"
        "from volcanoio.model import kinds\n\n\n"
        "class Mine:\n"
        '    name = "mine-controller"\n'
        "    inputs = (Input(kinds.POD, lambda pod: (pod.metadata.key,)),)\n"
        "    references = ()\n    rules = ()\n\n"
        "    def start(self, key):\n        return 0\n\n"
        "    def reduce(self, state, event, view):\n        return Step(state)\n"
    )
    found = discover(controllers_dirs=(tmp_path,))
    ours = found.names(entrypoints.CONTROLLERS)
    assert {"mine-controller", "job-controller", "pg-controller", "queue-controller"} <= set(ours)
    (mine,) = make_controllers(found, ("mine-controller",), ControllerContext())
    assert mine.name == "mine-controller"
