"""`config show` and `config diff`: what configurations do, not how they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from volcanoio.cli.main import volcanoio
from volcanoio.model.documents import load_yaml
from volcanoio.model.packaged import config_path

SHORT = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: binpack
    arguments: {binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 3}
  - name: gang
"""
LONG = """
# The same, with defaults, another order of keys, and a switch that binpack has no use for.
tiers:
- plugins:
  - arguments: {binpack.resources.nvidia.com/gpu: 3, binpack.weight: 1, binpack.resources: nvidia.com/gpu}
    enableNodeOrder: true
    enableJobReady: false
    name: binpack
  - {name: gang, enableJobReady: true}
actions: allocate,backfill
configurations:
- {name: allocate, arguments: {predicateErrorCacheEnable: true}}
"""


def _files(directory: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (directory / f"{name}.conf").write_text(text)
    return [str(directory / f"{name}.conf") for name in texts]


def _run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main(["config", *words])
    found = capsys.readouterr()
    assert ended.value.code == code, found
    return found.out if code < 2 else found.err


def test_arguments_and_switches_are_shown_with_their_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (short,) = _files(tmp_path, short=SHORT)
    text = _run(capsys, "show", short)
    shown = load_yaml(text)
    assert shown["actions"] == "allocate, backfill"
    assert shown["tiers"][0]["plugins"][0] == {
        "name": "binpack",
        "enableNodeOrder": True,
        "arguments": {
            "binpack.weight": 1,
            "binpack.cpu": 1,
            "binpack.memory": 1,
            "binpack.resources": "nvidia.com/gpu",
            "binpack.resources.nvidia.com/gpu": 3,
        },
    }
    (again,) = _files(tmp_path, again=text)
    assert _run(capsys, "show", again) == text


def test_texts_of_one_effect_do_not_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "diff", *_files(tmp_path, short=SHORT, long=LONG)) == "the same effect\n"


def test_differences_in_effect_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = SHORT.replace("gpu: 3", "gpu: 5").replace("name: gang", "name: gang\n    enableJobOrder: false")
    other = other.replace("backfill", "reclaim") + "  - name: priority\n"
    files = _files(tmp_path, short=SHORT, other=other)
    assert _run(capsys, "diff", *files, code=1) == (
        "~ actions: allocate, backfill -> allocate, reclaim\n"
        "~ order of tier 1: binpack, gang -> binpack, gang, priority\n"
        "~ plugin binpack binpack.resources.nvidia.com/gpu: 3 -> 5\n"
        "~ plugin gang enableJobOrder: true -> false\n"
        "- action backfill\n"
        "+ plugin priority\n"
        "+ action reclaim\n"
    )


def test_a_password_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = "metrics:\n  type: elasticsearch\n  address: http://es:9200\n  elasticsearch.password: geheim\n"
    (secret,) = _files(tmp_path, secret=SHORT + metrics)
    text = _run(capsys, "show", secret)
    assert "geheim" not in text
    assert load_yaml(text)["metrics"]["elasticsearch.password"] == "***"
    assert load_yaml(text)["metrics"]["interval"] == "30s"


def test_the_default_and_a_config_map_are_sources_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default = config_path("scheduler", "volcano-scheduler.conf").read_text()
    manifest = tmp_path / "map.yaml"
    indented = "".join(f"    {line}\n" for line in default.splitlines())
    manifest.write_text(f"kind: ConfigMap\napiVersion: v1\ndata:\n  volcano-scheduler.conf: |\n{indented}")
    assert _run(capsys, "diff", "default", str(manifest)) == "the same effect\n"


def test_an_invalid_configuration_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (wrong,) = _files(tmp_path, wrong="actions: allocate\ntiers:\n- plugins:\n  - name: gnag\n")
    said = _run(capsys, "show", wrong, code=2)
    assert said.startswith(f'volcanoio: {wrong}: line 4, column 11: plugin "gnag" is unknown; did you mean "gang"?')
    assert "give a file, -, cluster or default" in _run(capsys, "show", str(tmp_path / "none"), code=2)
