"""An updated pod summary equals a new one and one computed directly from the pods."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from volcanoio.engine.jobs.pods.index_ranges import parse_indexes
from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap, UidSet
from volcanoio.engine.jobs.pods.summary import NO_INDEXES, IndexSet, PodSummary, summarize
from volcanoio.model import names
from volcanoio.model.base import ObjectMeta, OwnerReference
from volcanoio.model.batch import Job, JobPhase, JobSpec, JobState, JobStatus, TaskSpec
from volcanoio.model.core import Pod, PodStatus

TASKS = ("a", "a-1")
UIDS = [f"u{number}" for number in range(12)]


def job_of(replicas: tuple[int, int], version: int, uid: str) -> Job:
    tasks = tuple(TaskSpec(name=name, replicas=number) for name, number in zip(TASKS, replicas, strict=True))
    return Job(
        metadata=ObjectMeta(name="job", namespace="default", uid=uid),
        spec=JobSpec(tasks=tasks),
        status=JobStatus(version=version, state=JobState(phase=JobPhase.RUNNING)),
    )


jobs = st.builds(
    job_of,
    st.tuples(st.integers(0, 5), st.integers(0, 3)),
    st.integers(0, 1),
    st.sampled_from(["job-uid", "other-uid"]),
)


@st.composite
def pods(draw: st.DrawFn, uid: str) -> Pod:
    task = draw(st.sampled_from([*TASKS, "gone"]))
    index = draw(st.integers(0, 6))
    name = draw(st.sampled_from([f"job-{task}-{index}", f"job-{task}-0{index}", f"job-{task}-x"]))
    marks = {names.TASK_SPEC: task, names.JOB_NAME: "job", names.JOB_VERSION: str(draw(st.integers(0, 1)))}
    if draw(st.booleans()):
        marks[names.TASK_INDEX] = str(index)
    if draw(st.integers(0, 5)) == 0:
        marks[names.OUT_OF_SYNC] = "true"
    owner = OwnerReference(api_version="v", kind="Job", name="job", uid=draw(st.sampled_from(["job-uid", "other-uid"])))
    going = "2030-01-01T00:00:00Z" if draw(st.integers(0, 3)) == 0 else None
    meta = ObjectMeta(name=name, uid=uid, annotations=marks, owner_references=(owner,), deletion_timestamp=going)
    phase = draw(st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]))
    return Pod(metadata=meta, status=PodStatus(phase=phase))


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, Pod | None, bool]:
    """Draw a uid, its new pod (None: deleted), and whether we deleted it."""
    uid = draw(st.sampled_from(UIDS))
    return uid, draw(st.none() | pods(uid)), draw(st.booleans())


@given(st.lists(st.tuples(jobs, st.lists(changes(), max_size=8)), max_size=6))
def test_it_equals_a_summary_of_all_pods(story: list[tuple[Job, list[tuple[str, Pod | None, bool]]]]) -> None:
    held: PersistentMap[str, Pod] = PersistentMap()
    deleting, summary = UidSet(), None
    for job, steps in story:
        for uid, pod, deleted in steps:
            held = held.without((uid,)) if pod is None else held.with_item(uid, pod)
            deleting = deleting.with_uids((uid,)) if deleted else deleting.without_uids((uid,))
        summary = summarize(job, held, deleting, summary)
        assert shown(summary) == shown(summarize(job, held, deleting)) == looked_at(job, held, deleting)


def shown(summary: PodSummary) -> dict[str, object]:
    counts = summary.counts
    return {
        "total": summary.total,
        "live": summary.live,
        "terminating": counts.terminating,
        "phases": {task: state.phase for task, state in counts.tasks.items()},
        "sum": (counts.pending, counts.running, counts.succeeded, counts.failed, counts.unknown),
        "unwanted": {pod.metadata.uid for pod in summary.unwanted_pods()},
        "present": {task: parse_indexes(text) for task, text in summary.present.items()},
        "leaving": {task: parse_indexes(text) for task, text in summary.leaving.items()},
        "whole": summary.is_complete,
        "free": {task: summary.free_indexes(task) for task in TASKS},
        "own": sorted(pod.metadata.uid for pod in summary.own_pods()),
    }


def looked_at(job: Job, held: PersistentMap[str, Pod], deleting: UidSet) -> dict[str, object]:
    """Compute the same from each pod directly."""
    tasks = {task.name: task.replicas for task in job.spec.tasks}
    own = [pod for pod in held.values() if pod.metadata.owner_references[0].uid == job.metadata.uid]

    def index(pod: Pod) -> int | None:
        text = pod.metadata.annotations.get(names.TASK_INDEX) or pod.metadata.name.rpartition("-")[2]
        return int(text) if text.isdigit() else None

    def going(pod: Pod) -> bool:
        return pod.metadata.deletion_timestamp is not None or pod.metadata.uid in deleting

    def task(pod: Pod) -> str:
        return pod.metadata.annotations[names.TASK_SPEC]

    def old(pod: Pod) -> bool:
        return int(pod.metadata.annotations[names.JOB_VERSION]) < job.status.version

    def surplus(pod: Pod) -> bool:
        return task(pod) in tasks and index(pod) is not None and (index(pod) or 0) >= tasks[task(pod)]

    def marked(pod: Pod) -> bool:
        return names.OUT_OF_SYNC in pod.metadata.annotations

    def live(pod: Pod) -> bool:
        return pod.status.phase not in ("Succeeded", "Failed")

    staying = [pod for pod in own if not going(pod)]
    counted = [pod for pod in staying if task(pod) in tasks]
    ours = [
        pod
        for pod in own
        if task(pod) in tasks and index(pod) is not None and not (old(pod) or surplus(pod) or marked(pod))
    ]
    sums = Counter(pod.status.phase or "Pending" for pod in counted)
    taken = {pod.metadata.name for pod in held.values()}
    there = {
        pod.metadata.name for pod in own if pod.metadata.name == f"job-{task(pod)}-{index(pod)}" and not surplus(pod)
    }

    def by_task(some: list[Pod]) -> dict[str, list[int]]:
        return {
            name: sorted({index(pod) or 0 for pod in some if task(pod) == name})
            for name in sorted({task(pod) for pod in some})
        }

    return {
        "total": len(own),
        "live": sum(map(live, staying)),
        "terminating": sum(1 for pod in own if going(pod) and task(pod) in tasks),
        "phases": {
            name: dict(sorted(Counter(pod.status.phase or "Pending" for pod in counted if task(pod) == name).items()))
            for name in sorted({task(pod) for pod in counted})
        },
        "sum": tuple(sums[phase] for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")),
        "unwanted": {pod.metadata.uid for pod in staying if marked(pod) or surplus(pod) or (live(pod) and old(pod))},
        "present": by_task([pod for pod in ours if not going(pod)]),
        "leaving": by_task([pod for pod in ours if going(pod) and pod.metadata.uid not in deleting]),
        "whole": len({name for name in there if any(name.startswith(f"job-{one}-") for one in tasks)})
        == sum(tasks.values()),
        "free": {
            name: [place for place in range(number) if f"job-{name}-{place}" not in taken]
            for name, number in tasks.items()
        },
        "own": sorted(pod.metadata.uid for pod in own),
    }


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 40), max_size=9)), max_size=9))
def test_marks_are_a_bag(steps: list[tuple[bool, list[int]]]) -> None:
    marks, plain = NO_INDEXES, Counter[int]()
    for comes, indexes in steps:
        some = indexes if comes else [*(Counter(indexes) & plain).elements()]
        marks = marks.with_changes([] if comes else some, some if comes else [])
        plain = plain + Counter(some) if comes else plain - Counter(some)
        assert marks.indexes() == sorted(plain)
        assert len(marks) == len(plain)
        assert marks.free_below(41) == [index for index in range(41) if index not in plain]
        assert marks == IndexSet(marks.bits, {index: number - 1 for index, number in plain.items() if number > 1})
