"""The examples and notebooks are executed: scripts as programs, notebooks cell by cell without a kernel."""

from __future__ import annotations

import ast
import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.measure import ROOT
from volcanoio.client import Client, LocalOptions
from volcanoio.localcluster.processes.launch.order import NONE
from volcanoio.localcluster.processes.launcher import find_namespaces

SCRIPTS = ROOT / "config/examples/python"
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def run_script(name: str, kubeconfig: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a script of the examples against a cluster."""
    assert kubeconfig is not None
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")


@pytest.mark.parametrize(
    ("script", "last_line"),
    [
        ("gang.py", "Result(job='default/hello', succeeded=3, failed=0, wait="),
        ("by_days.py", "backtest: 31 days done"),
        ("many_jobs.py", "Result(job='default/sweep-"),
    ],
)
def test_scripts_run(
    cluster: Client, script: str, last_line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(script, cluster.kubeconfig, monkeypatch)
    assert capsys.readouterr().out.splitlines()[-1].startswith(last_line)


def test_functions_run_as_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if asyncio.run(find_namespaces(tmp_path)) == NONE:
        pytest.skip("THIS MACHINE GIVES NO NAMESPACES: running shards as processes is NOT tested here")
    with Client(local=LocalOptions(run=True)) as client:
        run_script("functions.py", client.kubeconfig, monkeypatch)
    assert capsys.readouterr().out == "(6.0, 20.0)\n"


def test_all_scripts_are_run() -> None:
    assert {path.name for path in SCRIPTS.glob("*.py")} == {"gang.py", "by_days.py", "many_jobs.py", "functions.py"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path) -> None:
    """What a cell shows is its last expression, as HTML if it has that."""
    names: dict[str, Any] = {}
    shown = [show(body, names) for body in code_cells(notebook)]
    assert any(text.startswith("<div") for text in shown)


def code_cells(notebook: Path) -> list[str]:
    """Return the code of a notebook's cells."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def show(code: str, names: dict[str, Any]) -> str:
    """Execute a cell and return what a notebook would show of its last expression."""
    *body, last = ast.parse(code).body
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), "cell", "exec"), names)
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
