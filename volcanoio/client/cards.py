"""Jobs as HTML for notebooks: static, escaped, without scripts or references to other files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.printing.ages import human_duration
from volcanoio.model.times import epoch

_COLOURS = {
    JobPhase.PENDING: "#b7791f", JobPhase.RUNNING: "#2b6cb0", JobPhase.COMPLETED: "#2f855a", JobPhase.FAILED: "#c53030",
    JobPhase.ABORTED: "#718096", JobPhase.TERMINATED: "#c53030", JobPhase.RESTARTING: "#805ad5",
}  # fmt: skip
_OTHER = "#718096"
_WIDTH, _HEIGHT = 480, 14
_STYLE = "font:13px/1.5 system-ui,sans-serif;border:1px solid #8884;border-radius:6px;padding:8px 12px;max-width:520px"


class Span(NamedTuple):
    """A phase of a job with its begin, in epoch seconds; it ends where the next one begins."""

    phase: str
    begin: float


def phases_of(job: Job) -> list[Span]:
    """Return the phases that a job was in, in order; a phase that was entered again appears at its last time."""
    created = epoch(job.metadata.creation_timestamp)
    times = [(each.status, epoch(each.last_transition_time)) for each in job.status.conditions]
    if not any(phase == JobPhase.PENDING for phase, _ in times):
        times.append((str(JobPhase.PENDING), created))
    return sorted((Span(phase, at) for phase, at in times if at is not None), key=lambda span: span.begin)


def job_card(job: Job, note: str = "") -> str:
    """Return a job as a card: phase, gang bar, counts of pods, and its phases on a time axis."""
    status, meta = job.status, job.metadata
    phase = status.state.phase or str(JobPhase.PENDING)
    total = sum(task.replicas for task in job.spec.tasks)
    counts = [(name, getattr(status, name)) for name in ("pending", "running", "succeeded", "failed", "terminating")]
    shown = ", ".join(f"{count} {name}" for name, count in counts if count) or "no pods yet"
    message = note or status.state.message
    queue = f'<span style="opacity:.7">queue {escape(job.spec.queue or "default")}</span>'
    lines = [
        f'<div style="{_STYLE}"><div><b>{escape(meta.key)}</b> {_badge(phase)} {queue}</div>',
        _gang_bar(job, total),
        f"<div>{shown} of {total}; {job.spec.min_available} needed to start</div>",
    ]
    if message:
        lines.append(f"<div>{escape(message)}</div>")
    return "".join([*lines, _axis(phases_of(job), is_over=phase in FINISHED_PHASES), "</div>"])


def _colour(phase: str) -> str:
    return _COLOURS.get(JobPhase(phase), _OTHER) if phase in set(JobPhase) else _OTHER


def _badge(phase: str) -> str:
    style = f"background:{_colour(phase)};color:#fff;border-radius:4px;padding:0 6px"
    return f'<span style="{style}">{escape(phase)}</span>'


def _gang_bar(job: Job, total: int) -> str:
    """Return a bar of the pods that succeeded, run and failed, with a mark where the gang is complete."""
    status = job.status
    parts = (
        (status.succeeded, JobPhase.COMPLETED),
        (status.running, JobPhase.RUNNING),
        (status.failed, JobPhase.FAILED),
    )
    shapes, at = [], 0.0
    for count, phase in parts:
        width = _WIDTH * count / total if total else 0.0
        shapes.append(_rectangle(at, width, _COLOURS[phase], f"{count} of {total}"))
        at += width
    if 0 < job.spec.min_available < total:
        mark = _WIDTH * job.spec.min_available / total
        shapes.append(f'<path d="M{mark:.1f} 0V{_HEIGHT}" stroke="currentColor" stroke-dasharray="2"/>')
    return _svg(shapes, _HEIGHT, "pods of the gang")


def _rectangle(left: float, width: float, colour: str, title: str) -> str:
    if width <= 0:
        return ""
    place = f'x="{left:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"'
    return f'<rect {place} fill="{colour}"><title>{escape(title)}</title></rect>'


def _svg(shapes: Iterable[str], height: int, label: str) -> str:
    frame = f'<rect x="0" y="0" width="{_WIDTH}" height="{_HEIGHT}" fill="#8883"/>'
    size = f'viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="{escape(label)}"'
    style = "display:block;margin:4px 0"
    content = "".join(shapes)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">{frame}{content}</svg>'


def _axis(spans: Sequence[Span], *, is_over: bool) -> str:
    """Return the phases on a time axis; the last one has no end unless the job is over."""
    if len(spans) < 2:
        return ""
    begin, end = spans[0].begin, spans[-1].begin
    length = max(end - begin, 1.0) * (1.0 if is_over else 1.1)
    shapes = []
    for number, span in enumerate(spans):
        until = spans[number + 1].begin if number + 1 < len(spans) else begin + length
        left, width = _WIDTH * (span.begin - begin) / length, _WIDTH * (until - span.begin) / length
        duration = "" if number + 1 == len(spans) else f" for {human_duration(until - span.begin)}"
        shapes.append(_rectangle(left, width, _colour(span.phase), f"{span.phase}{duration}"))
    text = f"{spans[-1].phase} after {human_duration(end - begin)}"
    label = f'<text x="0" y="{_HEIGHT + 13}" font-size="11" fill="currentColor">{escape(text)}</text>'
    return _svg([*shapes, label], _HEIGHT + 18, f"phases: {', '.join(span.phase for span in spans)}")
