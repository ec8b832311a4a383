"""Large objects: the work of a review is linear in their size, and its answer is bounded.

Work is counted in calls and comparisons, not in time.
"""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from volcanoio_plugins.job.tensorflow import TensorflowPlugin

from tests.unit.admission.objects import TEMPLATE, create, job, queue, task, update
from volcanoio.engine.admission.jobtasks import find_cycle
from volcanoio.engine.admission.queues import QueueTree
from volcanoio.engine.admission.request import MOST_FINDINGS, MOST_HINTS, Review
from volcanoio.engine.admission.topology import MOST_PATTERNS
from volcanoio.framework.arguments import ArgumentError, suggestion
from volcanoio.framework.jobs import JobPlugin, lenient_plugin
from volcanoio.model import kinds, times
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Queue
from volcanoio.model.validation import dns_names
from volcanoio.runtime.webhooks.admission_review import json_patch
from volcanoio.runtime.webhooks.paths import MAX_DENIAL, denial_text


def flow(*flows: Manifest) -> Manifest:
    return {"metadata": {"name": "f", "namespace": "ns"}, "spec": {"flows": list(flows)}}


def named(**spec: Any) -> Manifest:
    return {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec}


def weighted(count: int) -> Manifest:
    path = "/".join("a" * count)
    keys = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")
    return {"metadata": {"name": "q", "annotations": dict.fromkeys(keys, path)}, "spec": {"weight": 1}}


def amounts(count: int, each: str) -> dict[str, str]:
    return {f"example.com/{number}": each for number in range(count)}


def waiting_tasks(count: int) -> list[Manifest]:
    return [task(f"t{number}", dependsOn={"name": [f"absent-{number}"]}) for number in range(count)]


HOSTILE: dict[str, tuple[Kind, Callable[[int], Manifest]]] = {
    "unknown targets of a flow": (
        kinds.JOB_FLOW,
        lambda n: flow(*({"name": f"f{at}", "dependsOn": {"targets": [f"x{at}"]}} for at in range(n))),
    ),
    "one flow many times": (
        kinds.JOB_FLOW,
        lambda n: flow(*({"name": "a"} for _ in range(n)), {"name": "a", "dependsOn": {"targets": ["b"] * n}}),
    ),
    "unknown phases of a probe": (
        kinds.JOB_FLOW,
        lambda n: flow(
            {"name": "b"},
            {"name": "a", "dependsOn": {"targets": ["b"], "probe": {"taskStatusList": [{"phase": "Runing"}] * n}}},
        ),
    ),
    "refused patches": (
        kinds.JOB_FLOW,
        lambda n: flow(*({"name": f"f{at}", "patch": {"jobSpec": {"networkTopology": {}}}} for at in range(n))),
    ),
    "unknown dependencies of tasks": (kinds.JOB, lambda n: job(*waiting_tasks(n))),
    "one task many times": (kinds.JOB, lambda n: job(*(task(dependsOn={"name": ["x"] * 20}) for _ in range(n)))),
    "unknown events": (
        kinds.JOB,
        lambda n: job(policies=[{"event": f"PodFailed{at}", "action": "AbortJo"} for at in range(n)]),
    ),
    "unknown plugins": (kinds.JOB, lambda n: job(plugins={f"svc{at}": [] for at in range(n)})),
    "mount paths": (kinds.JOB, lambda n: job(volumes=[{"mountPath": "/a"}] * n)),
    "policies without an event": (kinds.JOB, lambda n: job(policies=[{}] * n)),
    "tasks": (kinds.JOB, lambda n: job(*(task(f"t{at}") for at in range(n)))),
    "containers": (
        kinds.JOB,
        lambda n: job(task(template={"spec": {"containers": [{"name": "c", "image": "i"}] * n}})),
    ),
    "cron": (kinds.CRON_JOB, lambda n: named(schedule="@daily", jobTemplate={"spec": job(*waiting_tasks(n))["spec"]})),
    "weights of a hierarchy": (kinds.QUEUE, weighted),
    "amounts of a queue": (
        kinds.QUEUE,
        lambda n: named(weight=1, capability=amounts(n, "1"), deserved=amounts(n, "2")),
    ),
    "sub-groups": (kinds.POD_GROUP, lambda n: named(queue="default", subGroupPolicy=[{"networkTopology": {}}] * n)),
    "patterns": (
        kinds.HYPER_NODE,
        lambda n: named(members=[{"selector": {"regexMatch": {"pattern": f"[{at}"}}} for at in range(n)]),
    ),
}  # fmt: skip
"""Objects of very many parts, most of them wrong."""
MOST_CALLS = 8_000
"""Calls for each KiB of an object: 25 million for a body of the largest size."""


def calls_of(function: Callable[[], object]) -> int:
    """Return how many functions a function calls, those written in C included."""
    counts: Counter[str] = Counter()

    def count(frame: object, event: str, argument: object) -> None:
        counts[event] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return counts["call"] + counts["c_call"]


@pytest.mark.parametrize("case", HOSTILE)
def test_twice_as_many_parts_take_twice_the_calls(case: str) -> None:
    kind, make = HOSTILE[case]
    few, many = make(200), make(400)
    create(kind, many)  # fills caches
    once = calls_of(lambda: create(kind, few))
    assert calls_of(lambda: create(kind, many)) < 2.2 * once + 2_000


@pytest.mark.parametrize("case", HOSTILE)
def test_the_largest_object_takes_a_known_number_of_calls(case: str) -> None:
    kind, make = HOSTILE[case]
    made = make(500)
    size = len(msgspec.json.encode(made)) / 1024
    create(kind, made)
    assert calls_of(lambda: create(kind, made)) < MOST_CALLS * size


@pytest.mark.parametrize("case", HOSTILE)
def test_a_denial_is_bounded_and_counts_what_it_leaves_out(case: str) -> None:
    kind, make = HOSTILE[case]
    refused = create(kind, make(2_000))
    assert len(refused.messages) + len(refused.warnings) <= 2 * MOST_FINDINGS
    text = denial_text(refused) if refused.messages else ""
    assert len(text) < MAX_DENIAL + 4 * MOST_FINDINGS
    left_out = refused.left_out + len(refused.messages) - (text.count("\n- ") - 1)
    assert not refused.left_out or text.endswith(f"- {left_out} more; they are shown once these are fixed")


def test_a_long_denial_ends_after_its_first_messages() -> None:
    review = Review(allowed=False, messages=tuple(f"{at}: {'x' * 1_000}" for at in range(50)), left_out=7)
    text = denial_text(review)
    shown = text.count("\n- ") - 1
    assert shown == MAX_DENIAL // 1_004
    assert text.endswith(f"\n- {57 - shown} more; they are shown once these are fixed")


def test_suggestions_are_made_for_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def find(word: str, known: list[str], **_: Any) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", find)
    for case in ("unknown targets of a flow", "unknown events", "unknown plugins", "unknown phases of a probe"):
        kind, make = HOSTILE[case]
        compared.clear()
        create(kind, make(300))
        assert 0 < len(compared) <= MOST_HINTS, case


def test_a_suggestion_quotes_few_names_and_compares_no_long_ones() -> None:
    names = [f"name-{number:04}" for number in range(1_000)]
    assert suggestion("name-0001x", names) == (f"; valid values: {', '.join(names[:10])} and 990 more")
    assert suggestion("x", ["y" * 1_000]) == f"; valid values: {'y' * 63}…"
    assert suggestion("a" * 10_000, ["a" * 9_999, "b"]).startswith("; valid values: ")


class Compared(str):
    """A name whose comparisons are counted."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("closed", [False, True])
def test_a_cycle_is_found_with_few_comparisons(closed: bool) -> None:
    nodes = [Compared(number) for number in range(500)]
    after = [*nodes[1:], *([Compared(0)] if closed else [])]
    edges: dict[str, list[str]] = {node: [target] for node, target in zip(nodes, after, strict=False)}
    Compared.comparisons = 0
    assert len(find_cycle(edges)) == (501 if closed else 0)
    assert Compared.comparisons <= 2_000


def test_a_long_cycle_is_named_by_its_first_flows() -> None:
    circle = [{"name": f"f{at}", "dependsOn": {"targets": [f"f{(at + 1) % 300}"]}} for at in range(300)]
    (message,) = create(kinds.JOB_FLOW, flow(*circle)).messages
    assert "f0 → f1 → f2" in message
    assert "f19 → … (281 more); remove one" in message


def test_text_is_quoted_within_limits() -> None:
    (message,) = create(kinds.JOB, job(plugins={"x" * 100_000: []})).messages
    assert len(message) < 3_000


def test_a_name_that_no_object_can_have_is_refused_alone() -> None:
    """Messages about tasks repeat the name of the job."""
    refused = create(kinds.JOB, job(*(task(f"t{at}") for at in range(100)), name="a" * 254))
    assert refused.messages == ("metadata.name: must be no more than 253 characters; choose a shorter name",)


def test_patterns_are_compiled_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def members(count: int) -> Manifest:
        return named(members=[{"selector": {"regexMatch": {"pattern": f"a{at}"}}} for at in range(count)])

    compiled: list[str] = []
    monkeypatch.setattr("volcanoio.engine.admission.topology.re2.compile", lambda text, _: compiled.append(text))
    (message,) = create(kinds.HYPER_NODE, members(MOST_PATTERNS + 1)).messages
    assert f"there are {MOST_PATTERNS + 1} regular expressions, and at most {MOST_PATTERNS} are allowed" in message
    assert compiled == []
    same = named(members=members(1)["spec"]["members"] * 1_000)
    assert create(kinds.HYPER_NODE, same).allowed
    assert compiled == ["a0"]


def test_a_pattern_gets_little_memory() -> None:
    """Eight megabytes, the library's default, are 130 ms of compilation."""
    given = named(members=[{"selector": {"regexMatch": {"pattern": r"\pL{1000}"}}}])
    assert "pattern too large" in create(kinds.HYPER_NODE, given).messages[0]


class CountedQueues(QueueTree):
    """A tree that counts how often it determines a parent."""

    parents = 0

    def parent_of(self, queue: Queue) -> str:
        self.parents += 1
        return super().parent_of(queue)


def test_children_of_queues_are_found_once() -> None:
    tree = CountedQueues([queue(f"q{number}", f"q{number // 2}") for number in range(1, 500)])
    assert [child.metadata.name for number in range(1, 500) for child in tree.children(f"q{number}")]
    assert tree.parents == 499


def test_capabilities_of_descendants_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each resource of the queue: it may name very many."""
    below = [queue(f"c{number}", "parent") for number in range(100)]
    many = amounts(100, "1")
    stored = (queue("root"), queue("parent"), *below)
    few_calls = calls_of(lambda: create(kinds.QUEUE, queue_manifest({}), *stored))
    assert calls_of(lambda: create(kinds.QUEUE, queue_manifest(many), *stored)) < few_calls + 10_000


def queue_manifest(capability: dict[str, str]) -> Manifest:
    return {"metadata": {"name": "parent"}, "spec": {"weight": 1, "capability": capability}}


def test_a_duration_has_limits() -> None:
    """Matching its pattern is quadratic in the digits of a number without a unit."""
    with pytest.raises(times.DurationError, match="is not a duration"):
        times.parse_duration("1" * 129)
    refused = create(kinds.JOB, job(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": "1" * 200_000}]))
    assert "is not a duration" in refused.messages[0]


def test_long_texts_are_not_kept_by_caches() -> None:
    """A name of a megabyte would stay in memory until 8,000 others came."""
    kept: list[str] = []
    rule = dns_names.cached_by_text(8)(lambda text: kept.append(text) or "")  # type: ignore[func-returns-value]
    for text in ("short", "short", "x" * 1_000, "x" * 1_000):
        rule(text)
    assert kept == ["short", "x" * 1_000, "x" * 1_000]


def test_plugins_are_not_asked_about_a_job_of_impossible_size() -> None:
    """They would list its pods."""
    tasks = (task("worker", 2_000_000_005), task("ps", -2_000_000_000))
    refused = create(kinds.JOB, job(*tasks, plugins={"tensorflow": []}))
    assert any("'replicas' < 0 in task: ps" in message for message in refused.messages)
    stored = job(task("worker", 2), plugins={"tensorflow": []})
    scaled = update(kinds.JOB, stored, job(task("worker", 2_000_000_000), plugins={"tensorflow": []}))
    assert "a job has at most 50000 pods" in scaled.messages[0]


def test_the_arguments_of_a_stored_plugin_are_tried_up_to_a_number() -> None:
    tried: list[int] = []

    class Counted(JobPlugin):
        def __init__(self, given: Any) -> None:
            tried.append(len(given))
            if given:
                raise ArgumentError("no")

    assert lenient_plugin(Counted, ["x"] * 1_000)[1] == "arguments from number 1 on: no"
    assert len(tried) <= 70


def test_tf_config_is_made_once_for_tasks_of_one_form(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    config = TensorflowPlugin._config

    def counted(plugin: TensorflowPlugin, of: Job, task: TaskSpec, index: int) -> str:
        made.append(task.name)
        return config(plugin, of, task, index)

    monkeypatch.setattr(TensorflowPlugin, "_config", counted)
    tasks = [task("worker"), *(task(f"t{at}", 0) for at in range(100)), task("the-longest-name", 0)]
    create(kinds.JOB, job(*tasks, plugins={"tensorflow": []}))
    assert made == ["the-longest-name"]


def test_paths_are_formatted_only_where_something_changes() -> None:
    """A long key above many values would be copied for each of them."""
    deep = {"x" * 200_000: {str(number): number for number in range(5_000)}}
    old = job(task())
    old["spec"]["tasks"][0]["template"] = {**TEMPLATE, "deep": deep}
    new = msgspec.json.decode(msgspec.json.encode(old))
    new["metadata"]["labels"] = {"a": "b"}
    assert json_patch(old, new) == [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    assert update(kinds.JOB, old, new).allowed
    new["spec"]["tasks"][0]["template"]["deep"]["x" * 200_000]["7"] = 8
    (message,) = update(kinds.JOB, old, new).messages
    assert message.startswith(f"spec.tasks[0].template.deep.{'x' * 180}")
    assert len(message) < 1_000
