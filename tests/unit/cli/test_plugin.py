"""`volcanoio plugin` and `volcanoio config`, as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from volcanoio.cli.main import volcanoio

HASHING = """\
class Hashing:
    name = 'hashing'
    def __init__(self, arguments): ...
    def score_on(self, shape, node): return float(hash(node.name) % 100_000)
"""


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_a_new_plugin_works_passes_its_check_and_its_own_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plugin", "new", "my-rank", "--dir", tmp_path / "mine") == 0
    assert [path.name for path in sorted((tmp_path / "mine").iterdir())] == ["my_rank.py", "test_my_rank.py"]
    assert run("plugin", "test", tmp_path / "mine" / "my_rank.py") == 0
    reported = capsys.readouterr().out
    assert "my-rank: ScorerOne" in reported
    assert "FAIL" not in reported
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def test_a_new_plugin_overwrites_nothing_and_needs_a_valid_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_mine.py").write_text("")
    assert run("plugin", "new", "mine", "--dir", tmp_path) == 2
    assert "test_mine.py exists already" in capsys.readouterr().err
    assert not (tmp_path / "mine.py").exists()
    assert run("plugin", "new", "../evil", "--dir", tmp_path) == 2
    assert "is not a valid name for a plugin" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gang", 'there is a scheduler plugin "gang" already (volcanoio '),
        ("class", '"class" is a word of Python; choose another name'),
        ("json", '"json" is a module of Python; choose another name'),
    ],
)
def test_a_new_plugin_is_refused_under_a_name_that_is_taken(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plugin", "new", name, "--dir", tmp_path) == 2
    reported = capsys.readouterr().err
    assert said in reported
    assert reported.endswith("choose another name\n")
    assert list(tmp_path.iterdir()) == []


def test_findings_of_a_plugin_end_in_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "class Bad:\n    name = 'bad'\n    def __init__(self, arguments): ...\n"
        "    def overused(self, queue): return 'yes'\n"
    )
    assert run("plugin", "test", file) == 1
    assert "overused must give True or False, not 'yes'" in capsys.readouterr().out
    file.write_text("class (")
    assert run("plugin", "test", file) == 1
    assert "cannot be loaded: SyntaxError" in capsys.readouterr().err


def test_a_check_of_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next_step = "give the path of a plugin's file; volcanoio plugin new NAME writes one\n"
    assert run("plugin", "test", tmp_path / "nope.py") == 2
    assert capsys.readouterr().err == f"volcanoio: {tmp_path}/nope.py: there is no such file; {next_step}"
    assert run("plugin", "test", tmp_path) == 2
    assert capsys.readouterr().err == f"volcanoio: {tmp_path}: is a directory; {next_step}"


def test_decisions_that_hang_on_hashes_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hashing.py"
    file.write_text(HASHING)
    assert run("plugin", "test", file) == 1
    assert "another process decides differently; do not use hash()" in capsys.readouterr().out


def test_two_hash_seeds_that_order_five_nodes_alike_still_differ(tmp_path: Path) -> None:
    """With the hash seeds 5, 15 and 20, the decisions on clusters of five nodes were the same by chance."""
    file = tmp_path / "hashing.py"
    file.write_text(HASHING)
    command = (sys.executable, "-m", "volcanoio.plugincheck.check", str(file), "hashing")
    digests = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, input="", capture_output=True, text=True, check=True
        ).stdout
        for seed in ("5", "15", "20")
    }
    assert len(digests) == 3


def test_lint_prints_positions_and_sets_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, mapped = tmp_path / "good.conf", tmp_path / "bad.conf", tmp_path / "map.yaml"
    good.write_text('actions: "allocate"\ntiers: [{plugins: [{name: gang, enableTargetJob: true}]}]\n')
    bad.write_text('actions: "alocate"\n')
    mapped.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  volcano-scheduler.conf: |\n"
        '    actions: "alocate"\n'
    )
    assert run("config", "lint", good) == 0
    reported = capsys.readouterr()
    assert reported.out.startswith(f"{good}:2:33: warning: enableTargetJob has no effect")
    assert reported.err == "0 errors, 1 warning\n"
    assert run("config", "lint", bad, mapped) == 1
    problem = 'error: action "alocate" is unknown; did you mean "allocate"?'
    assert capsys.readouterr().out.splitlines() == [f"{bad}:1:11: {problem}", f"{mapped}:6:15: {problem}"]
    assert run("config", "lint", "-o", "json", bad) == 1
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": str(bad),
            "severity": "error",
            "line": 1,
            "column": 11,
            "text": 'action "alocate" is unknown',
            "suggestion": 'did you mean "allocate"?',
        }
    ]
    assert run("config", "lint", tmp_path / "absent") == 2
    assert "No such file" in capsys.readouterr().err


def test_lint_finds_mounted_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "plugins"
    assert run("plugin", "new", "mine", "--dir", directory) == 0
    conf = tmp_path / "c.conf"
    conf.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: mine\n    arguments: {mine.wight: 2}\n")
    assert run("config", "lint", "--plugins-dir", directory, conf) == 1
    assert f'{conf}:5:17: error: mine: unknown argument "mine.wight"; did you mean "mine.weight"?' in (
        capsys.readouterr().out
    )
