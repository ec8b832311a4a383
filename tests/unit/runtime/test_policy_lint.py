"""`config lint` of the controllers' file: mistakes with places, and what would have no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from volcanoio.cli.linting import run_lint
from volcanoio.runtime.policies.lint import is_controller_configuration

SCHEDULER = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}%s]}]\n'


def linted(tmp_path: Path, capsys: pytest.CaptureFixture[str], *texts: str) -> tuple[int, list[str]]:
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.conf")
        files[-1].write_text(text)
    code = run_lint(files, "text", (), ignore_unavailable=False)
    return code, [line.removeprefix(f"{tmp_path}/") for line in capsys.readouterr().out.splitlines()]


def test_mistakes_are_errors_with_their_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "policies:\n- name: declared\n  jobs: some\n- name: min_runtme\n- name: oom_scale_up\n"
        "  arguments: {factr: 2, attempts: 0}\n"
    )
    code, found = linted(tmp_path, capsys, text)
    assert code == 1
    assert found == [
        '0.conf:3:9: error: jobs must be all or named, not "some"; valid values: all, named',
        '0.conf:4:9: error: policy "min_runtme" is unknown; did you mean "min_runtime"?',
        '0.conf:5:3: error: oom_scale_up: unknown argument "factr"; did you mean "factor"?',
    ]


def test_a_misspelt_first_key_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = linted(tmp_path, capsys, "policy:\n- name: declared\n")
    assert code == 1
    assert found == ['0.conf:1:1: error: key "policy" is unknown in the file; did you mean "policies"?']


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ((), "lint the scheduler's configuration together with this one"),
        ((SCHEDULER % "",), "which is off; add - name: cdp to a tier"),
        ((SCHEDULER % ", {name: cdp}",), ""),
    ],
)
def test_min_runtime_needs_cdp(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: tuple[str, ...], said: str
) -> None:
    code, found = linted(tmp_path, capsys, "policies:\n- name: min_runtime\n", *others)
    warnings = [line for line in found if "min_runtime" in line]
    assert code == 0
    assert bool(warnings) == bool(said)
    assert all(said in line and line.startswith("0.conf:2:3: warning: ") for line in warnings)


def test_a_config_map_may_hold_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  volcano-controller.conf: |\n"
        "    policies:\n    - name: declard\n"
    )
    code, found = linted(tmp_path, capsys, text)
    assert code == 1
    assert found == ['0.conf:7:13: error: policy "declard" is unknown; did you mean "declared"?']


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("volcano-controller.conf", 0, "warning: the file is empty: the controllers ask the policy declared alone"),
        ("volcano-scheduler.conf", 1, "error: the file is empty: a scheduler refuses it; write actions"),
        ("mine.yaml", 1, "error: the file is empty: a scheduler refuses it; the controllers ask the policy declared"),
    ],
)
@pytest.mark.parametrize("text", ["", "# nothing yet\n---\n"])
def test_an_empty_file_is_reported_with_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, name: str, code: int, said: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert run_lint([file], "text", (), ignore_unavailable=False) == code
    assert capsys.readouterr().out.startswith(f"{file}:1:1: {said}")


def test_an_empty_key_of_a_config_map_is_reported_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  volcano-controller.conf: ''\n"
    code, found = linted(tmp_path, capsys, manifest, "policies:\n- name: min_runtime\n")
    assert code == 0
    assert found[0].startswith("0.conf:5:28: warning: the file is empty: the controllers ask")
    assert "together with this one" in found[1], "an empty file is no scheduler's configuration without cdp"


@pytest.mark.parametrize(
    ("text", "whose"),
    [("policies: []", True), ("policies:\n- [", True), ('actions: "a"', False), ("", False), ("a: [", False)],
)
def test_owner_of_a_configuration_file(text: str, whose: bool) -> None:
    assert is_controller_configuration(text) == whose
