"""The demo's board on terminals of any width, and as lines."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from volcanoio.cli.board import PlainScreen, Row, draw, gang_bar, note

RUNNING = Row(
    name="tensorflow-dist-mnist",
    kind="job",
    queue="kuberay-test-queue",
    phase="Completing",
    gang=3,
    placed=3,
    pending=10,
    running=2,
    succeeded=1,
    failed=1,
    retries=0,
    note="",
)
WAITING = replace(
    RUNNING, name="gang-a", phase="Pending", gang=5, placed=0, note="3/5 tasks in gang unschedulable: 2 Pending"
)


def _lines(width: int, *rows: Row) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(draw(list(rows), width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_terminal_of_80_columns_shows_all_but_notes_uncut_and_notes_beneath() -> None:
    assert _lines(80, RUNNING, WAITING) == [
        "JOB                   PHASE      GANG     PEND RUN DONE FAIL QUEUE",
        "tensorflow-dist-mnist Completing #### 3/3 10   2   1    1    kuberay-test-queue",
        "gang-a                Pending    .... 0/5 10   2   1    1    kuberay-test-queue",
        "gang-a waits: 3/5 tasks in gang unschedulable",
    ]


def test_a_narrower_one_keeps_phase_gang_and_counts() -> None:
    header, row, *_ = _lines(60, RUNNING)
    assert header.split() == ["JOB", "PHASE", "GANG", "PEND", "RUN", "DONE", "FAIL"]
    assert "Completing #### 3/3 10   2   1    1" in row


def test_a_wide_one_has_the_note_beside_the_row() -> None:
    lines = _lines(140, WAITING)
    assert len(lines) == 2
    assert lines[1].endswith("waits: 3/5 tasks in gang unschedulable")


def test_a_line_is_printed_when_the_phase_changes_and_once_for_each_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = PlainScreen()
    silent = replace(WAITING, note="")
    for row in (silent, silent, WAITING, replace(WAITING, note="4/5 other"), silent, WAITING, RUNNING):
        screen.show([row])
    said = capsys.readouterr().out.splitlines()
    assert ["waits: 3/5 tasks" in line for line in said] == [False, True, False]


def test_notes_and_bars() -> None:
    assert note(replace(WAITING, retries=2)) == "waits: 3/5 tasks in gang unschedulable, retry 2"
    assert note(replace(RUNNING, retries=1)) == "retry 1"
    assert note(RUNNING) == ""
    assert gang_bar(replace(RUNNING, placed=2, gang=4)) == "#####..... 2/4"
    assert gang_bar(replace(RUNNING, placed=2, gang=0), 5) == "##### 1/0"
