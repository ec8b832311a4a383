"""The script of the chart library comes from an installed package, or is not served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from volcanoio.web import app
from volcanoio.web.app import chart_library


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    chart_library.cache_clear()
    yield
    chart_library.cache_clear()


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "CHART_PACKAGE", "a_package_that_does_not_exist")
    assert chart_library() is None


def test_the_script_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "charting_package" / "package_data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(app, "CHART_PACKAGE", "charting_package")
    assert chart_library() is None
    chart_library.cache_clear()
    (data / "plotly.min.js").write_text("draw()")
    assert chart_library() == b"draw()"


def test_the_real_package_has_it() -> None:
    pytest.importorskip("plotly", reason="the extra volcanoio[web] is not installed")
    assert (chart_library() or b"").startswith(b"/**\n* plotly.js")
