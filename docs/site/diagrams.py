"""Diagrams of docs/images, drawn from the code's own tables; `python -m docs.site.diagrams` writes them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Mapping
from inspect import getsource
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import svg
from volcanoio_plugins.scheduling.queues.attributes import compute_real_capability
from volcanoio_plugins.scheduling.queues.proportion import QueueRequest, compute_deserved

from volcanoio.engine.jobs.state.transitions import STOPPED_PHASES, TRANSITIONS
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.model.batch import JobAction, JobPhase

IMAGES = Path(__file__).parents[1] / "images"
INK, SOFT, PAPER, LINE = "#1f2937", "#6b7280", "#ffffff", "#374151"
BLUE, GREEN, RED, AMBER, GREY = "#dbeafe", "#dcfce7", "#fee2e2", "#fef3c7", "#f3f4f6"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2

    @property
    def level(self) -> float:
        """The vertical middle."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


class Style(NamedTuple):
    """How a text looks; `start` is whether its position is that of its beginning, not of its middle."""

    size: float = 13
    fill: str = INK
    bold: bool = False
    start: bool = False


NOTE, NOTE_AFTER = Style(11, SOFT), Style(11, SOFT, start=True)
NAME, NAME_AFTER = Style(14, bold=True), Style(14, bold=True, start=True)


def text(x: float, y: float, words: str, style: Style) -> svg.Element:
    """A line of text; `y` is its vertical middle."""
    return svg.Text(
        x=x, y=y + style.size * 0.35, text=words, font_size=style.size, fill=style.fill,
        text_anchor="start" if style.start else "middle", font_weight="600" if style.bold else None,
    )  # fmt: skip


def frame(box: Box, fill: str, *, dashed: bool = False, stroke: str = LINE) -> svg.Element:
    """A rounded rectangle."""
    return svg.Rect(
        x=box.x, y=box.y, width=box.width, height=box.height, rx=8, fill=fill, stroke=stroke, stroke_width=1.2,
        stroke_dasharray=[5, 4] if dashed else None,
    )  # fmt: skip


def arrow(points: Iterable[tuple[float, float]], *, dashed: bool = False, curved: bool = False) -> svg.Element:
    """An arrow through points; `curved` takes the inner ones as those of a Bezier curve."""
    (x, y), *more = points
    path: list[svg.PathData] = [svg.M(x, y)]
    if curved:
        (ax, ay), (bx, by), (cx, cy) = more
        path.append(svg.C(ax, ay, bx, by, cx, cy))
    else:
        path += [svg.L(*point) for point in more]
    return svg.Path(
        d=path, fill="none", stroke=LINE, stroke_width=1.4, marker_end="url(#head)",
        stroke_dasharray=[5, 4] if dashed else None,
    )  # fmt: skip


def drawing(width: float, height: float, title: str, elements: Iterable[svg.Element]) -> str:
    """The file of a diagram: on white in a light and in a dark page, with its title for screen readers."""
    head = svg.Marker(
        id="head", viewBox=svg.ViewBoxSpec(0, 0, 10, 10), refX=9, refY=5, markerWidth=7, markerHeight=7, orient="auto",
        elements=[svg.Path(d=[svg.M(0, 0), svg.L(10, 5), svg.L(0, 10), svg.Z()], fill=LINE)],
    )  # fmt: skip
    made = svg.SVG(
        viewBox=svg.ViewBoxSpec(0, 0, width, height), width=width, height=height,
        elements=[
            svg.Title(text=title), svg.Defs(elements=[head]),
            svg.Style(text=f"text {{ font-family: {FONT} }}"),
            svg.Rect(x=0, y=0, width=width, height=height, rx=10, fill=PAPER),
            *elements,
        ],
    )  # fmt: skip
    return f"{made}\n"


# Phases of a job

WORKING = (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING)
"""Phases in which actions have effect."""
COLOURS = {
    JobPhase.PENDING: AMBER, JobPhase.RUNNING: BLUE, JobPhase.RESTARTING: AMBER, JobPhase.COMPLETED: GREEN,
    JobPhase.FAILED: RED,
}  # fmt: skip
PLACES = {
    JobPhase.PENDING: (60, 80), JobPhase.RUNNING: (330, 80), JobPhase.RESTARTING: (195, 230),
    JobPhase.COMPLETING: (580, 60), JobPhase.TERMINATING: (580, 150), JobPhase.ABORTING: (580, 240),
    JobPhase.COMPLETED: (750, 60), JobPhase.TERMINATED: (750, 150), JobPhase.ABORTED: (750, 240),
    JobPhase.FAILED: (195, 350),
}  # fmt: skip
"""Upper left corner of each phase's box."""
GROUP = Box(30, 40, 460, 260)
"""The frame around the working phases."""


def _leads_everywhere(action: JobAction) -> JobPhase | None:
    """The phase to which an action leads from every working phase; None where that differs."""
    phases = {TRANSITIONS[phase][action].to for phase in WORKING if action in TRANSITIONS[phase]}
    return phases.pop() if len(phases) == 1 and all(action in TRANSITIONS[phase] for phase in WORKING) else None


def job_phases() -> str:
    """The state machine of a Job, from `TRANSITIONS` and `STOPPED_PHASES`; dashed what happens without an action."""
    boxes = {phase: Box(*PLACES[phase], 130, 44) for phase in JobPhase}
    shown = [frame(GROUP, GREY, stroke="#d1d5db")]
    for phase, box in boxes.items():
        shown += [frame(box, COLOURS.get(phase, PAPER)), text(box.middle, box.level, phase, NAME)]
    by_target: dict[JobPhase, list[str]] = {}
    for action in JobAction:
        if (target := _leads_everywhere(action)) is not None:
            by_target.setdefault(target, []).append(action)
    for target, actions in by_target.items():
        if target is not JobPhase.RESTARTING:
            box = boxes[target]
            shown.append(arrow([(GROUP.right, box.level), (box.x, box.level)]))
            shown.append(text((GROUP.right + box.x) / 2 - 3, box.level - 12, ", ".join(actions), NOTE))
    for phase, stopped in STOPPED_PHASES.items():
        shown.append(
            arrow([(boxes[phase].right, boxes[phase].level), (boxes[stopped].x, boxes[phase].level)], dashed=True)
        )
    return drawing(910, 410, "Phases of a Job", [*shown, *_among_working(boxes, by_target[JobPhase.RESTARTING])])


def _among_working(boxes: Mapping[JobPhase, Box], restarts: Iterable[str]) -> Iterable[svg.Element]:
    """What leads to and from Pending, Running and Restarting; a Job's status decides the dashed ones."""
    pending, running, restarting, failed, completed, aborted = (
        boxes[phase]
        for phase in (
            JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.FAILED, JobPhase.COMPLETED,
            JobPhase.ABORTED,
        )
    )  # fmt: skip
    between, low = (pending.right + running.x) / 2, aborted.bottom + 34
    yield text(60, 55, "actions of policies and Commands have effect in these", NOTE_AFTER)
    yield arrow([(pending.right, pending.y + 14), (running.x, running.y + 14)], dashed=True)
    yield text(between, pending.y + 2, "minAvailable run", NOTE)
    yield arrow([(running.x, running.bottom - 12), (pending.right, pending.bottom - 12)], dashed=True)
    yield text(between, pending.bottom + 2, "too few left", NOTE)
    yield arrow([(running.middle, running.bottom), (restarting.right - 30, restarting.y)])
    for row, action in enumerate(restarts):
        yield text(between + 3, 152 + 15 * row, action, NOTE)
    yield arrow([(restarting.x + 30, restarting.y), (pending.middle, pending.bottom)], dashed=True)
    yield text(103, 182, "pods are gone", NOTE)
    yield arrow([(restarting.middle, restarting.bottom), (failed.middle, failed.y)], dashed=True)
    yield text(restarting.middle + 8, low + 10, "maxRetry used up", NOTE_AFTER)
    yield arrow([(440, running.bottom), (440, failed.level), (failed.right, failed.level)], dashed=True)
    yield text(448, failed.level, "all pods ended, too few succeeded", NOTE_AFTER)
    over = [(running.middle, running.y), (running.middle, 22), (completed.middle, 22), (completed.middle, completed.y)]
    yield arrow(over, dashed=True)
    yield text(610, 12, "all pods ended, minAvailable (or minSuccess) of them succeeded", NOTE)
    if all(JobAction.RESUME_JOB in TRANSITIONS[phase] for phase in (JobPhase.ABORTING, JobPhase.ABORTED)):
        back = [
            (aborted.middle, aborted.bottom),
            (aborted.middle, low),
            (365, low),
            (restarting.right, restarting.level),
        ]
        yield arrow(back)
        yield text(610, low - 10, JobAction.RESUME_JOB, NOTE)


# Shares of queues

CLUSTER = 96
"""CPUs of the example."""
QUEUES: Mapping[str, dict[str, int]] = {
    "research": {"weight": 3, "request": 80, "guarantee": 0, "capability": 0},
    "production": {"weight": 2, "request": 20, "guarantee": 24, "capability": 0},
    "batch": {"weight": 1, "request": 60, "guarantee": 0, "capability": 24},
}
"""The queues of the example: weight, and CPUs that they request, that are guaranteed, that they may have (0: all)."""


def shares() -> dict[str, float]:
    """CPUs that each queue deserves, as the plugin proportion computes them."""
    total = {"cpu": CLUSTER * 1000}
    guaranteed = {"cpu": 1000 * sum(queue["guarantee"] for queue in QUEUES.values())}
    requests = []
    for name, queue in QUEUES.items():
        guarantee = {"cpu": 1000 * queue["guarantee"]}
        capability = {"cpu": 1000 * queue["capability"]} if queue["capability"] else {}
        most = compute_real_capability(total, guaranteed, guarantee, capability)
        requests.append(
            QueueRequest(
                name=name, weight=queue["weight"], request={"cpu": 1000 * queue["request"]}, guarantee=guarantee,
                real_capability=most,
            )
        )  # fmt: skip
    return {name: amounts["cpu"] / 1000 for name, amounts in compute_deserved(total, requests).items()}


def queue_shares() -> str:
    """What three queues deserve, as the plugin computes it, beside what they request, are guaranteed, and may have."""
    scale, left = 6.2, 150
    shown = [
        text(left, 28, f"A cluster with {CLUSTER} CPUs, plugin proportion", NAME_AFTER),
        *(
            element
            for at in range(0, CLUSTER + 1, 24)
            for element in (
                svg.Line(x1=left + at * scale, y1=48, x2=left + at * scale, y2=300, stroke="#e5e7eb", stroke_width=1),
                text(left + at * scale, 312, str(at), NOTE),
            )
        ),
    ]
    for number, (name, deserved) in enumerate(shares().items()):
        queue, top = QUEUES[name], 60 + number * 82
        shown.append(text(24, top + 16, name, NAME_AFTER))
        shown.append(text(24, top + 36, f"weight {queue['weight']}", NOTE_AFTER))
        if queue["capability"]:
            end = left + queue["capability"] * scale
            shown.append(svg.Line(x1=end, y1=top - 6, x2=end, y2=top + 60, stroke="#b91c1c", stroke_width=2.5))
            shown.append(text(end + 6, top + 52, f"capability {queue['capability']}", Style(11, "#b91c1c", start=True)))
        shown.append(svg.Rect(x=left, y=top, width=queue["request"] * scale, height=16, rx=3, fill="#e5e7eb"))
        shown.append(text(left + 6, top + 8, f"requested {queue['request']}", Style(11, start=True)))
        shown.append(svg.Rect(x=left, y=top + 20, width=deserved * scale, height=20, rx=3, fill="#60a5fa"))
        if queue["guarantee"]:
            shown.append(
                svg.Rect(x=left, y=top + 20, width=queue["guarantee"] * scale, height=20, rx=3, fill="#34d399")
            )
        label = f"deserved {deserved:g}" + (f" (guaranteed {queue['guarantee']})" if queue["guarantee"] else "")
        shown.append(
            text(
                left + max(deserved, queue["capability"]) * scale + 8, top + 30, label, Style(12, bold=True, start=True)
            )
        )
    return drawing(800, 330, "What three queues deserve", shown)


# The path of a pod


def stages() -> dict[codes.Stage, str]:
    """Each stage of a job's way to its nodes, with the sentence that documents it in the code."""
    (definition,) = ast.parse(textwrap.dedent(getsource(codes.Stage))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[codes.Stage, str] = {}
    for name, documented in pairwise(definition.body):
        if isinstance(name, ast.Assign) and isinstance(documented, ast.Expr):
            assert isinstance(documented.value, ast.Constant)
            assert isinstance(name.value, ast.Constant)
            found[codes.Stage(str(name.value.value))] = str(documented.value.value)
    return found


def pod_path() -> str:
    """The stages that a job passes before its pods run, with the codes of `volcanoio why` at each."""
    documented = stages()
    assert list(documented) == list(codes.Stage)
    shown = [text(16, 24, "stage", NOTE_AFTER), text(280, 24, "codes of jobs that wait there", NOTE_AFTER)]
    top = 40.0
    for stage in codes.Stage:
        listed = [name for name, code in codes.CODES.items() if code.stage is stage]
        lines = textwrap.wrap(" · ".join(listed), 76, break_on_hyphens=False)
        box = Box(16, top, 248, max(50, 18 + 18 * len(lines)))
        shown += [frame(box, BLUE), text(box.middle, box.level - 10, stage, NAME)]
        shown.append(text(box.middle, box.level + 10, documented[stage].removesuffix("."), Style(11)))
        first = box.level - 9 * (len(lines) - 1)
        shown += [text(280, first + 18 * row, line, Style(12, start=True)) for row, line in enumerate(lines)]
        top = box.bottom + 18
        shown.append(arrow([(box.middle, box.bottom), (box.middle, top)]))
    shown.append(text(140, top + 12, "the pods are bound to their nodes", Style(11)))
    return drawing(790, top + 30, "The path of a pod", shown)


DIAGRAMS = {"job-phases.svg": job_phases, "queue-shares.svg": queue_shares, "pod-path.svg": pod_path}

if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for file, draw in DIAGRAMS.items():
        (IMAGES / file).write_text(draw())
