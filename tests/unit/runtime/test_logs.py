"""Logs go to one stream in one form, ours and the standard library's."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from volcanoio.runtime import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_hold_level_time_and_fields() -> None:
    out = io.StringIO()
    logs.set_up(form="json", level="info", stream=out)
    structlog.get_logger().info("bound", pod="ns/a", node=object)
    structlog.get_logger().debug("not shown")
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"], event["pod"]) == ("bound", "info", "ns/a")
    assert event["timestamp"].endswith("Z")


def test_an_exception_is_one_line_of_json() -> None:
    out = io.StringIO()
    logs.set_up(form="json", stream=out)
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_value"] == "boom"


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_standard_librarys_warnings_come_the_same_way(form: str) -> None:
    out = io.StringIO()
    logs.set_up(form=form, stream=out)  # type: ignore[arg-type]  # parametrised over the literals
    logging.getLogger("aiohttp.access").info("chatter")
    logging.getLogger("asyncio").warning("slow callback")
    assert "chatter" not in out.getvalue()
    assert "slow callback" in out.getvalue()


def test_unknown_levels_and_formats_are_named() -> None:
    with pytest.raises(ValueError, match='"loud" is unknown; use one of debug'):
        logs.set_up(level="loud")
    with pytest.raises(ValueError, match="use json or console"):
        logs.set_up(form="xml")  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_logged_with_places_and_without_values_of_variables(form: Literal["json", "console"]) -> None:
    out = io.StringIO()
    logs.set_up(form=form, stream=out)
    password = "hunter" + "2"
    try:
        raise ValueError(f"{len(password)} letters")
    except ValueError:
        structlog.get_logger().exception("reducer raised")
    text = out.getvalue()
    assert "7 letters" in text
    assert "test_logs.py" in text
    assert "hunter2" not in text
    assert len(text.splitlines()) < 10
