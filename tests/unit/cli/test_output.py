"""Tables, documents, colours and errors that all commands about a cluster print."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from volcanoio.cli.connection import Target
from volcanoio.cli.output import Duration, TablePrinter, documents, on_cluster, phase_text, yaml_text
from volcanoio.cli.terminal import ReportsErrors, unknown_name
from volcanoio.model import kinds

ROWS = [("train", "Running", "a"), ("etl", "Pending", "b")]


def test_columns_are_as_wide_as_the_first_rows_need(capsys: pytest.CaptureFixture[str]) -> None:
    table = TablePrinter(("JOB", "PHASE", "NODES"), wide=1)
    table.print(ROWS)
    table.print([("a-longer-name", "Running", "c")])
    assert capsys.readouterr().out == (
        "JOB     PHASE\n"
        "train   Running\n"
        "etl     Pending\n"
        "a-longer-nameRunning\n"
    )  # fmt: skip


def test_wide_shows_the_last_columns(capsys: pytest.CaptureFixture[str]) -> None:
    TablePrinter(("JOB", "PHASE", "NODES"), output="wide", wide=1).print(ROWS)
    assert capsys.readouterr().out == (
        "JOB     PHASE     NODES\n"
        "train   Running   a\n"
        "etl     Pending   b\n"
    )  # fmt: skip


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_only_terminals_have_colours_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert f"{phase_text('Running')}" == "Running"
    monkeypatch.setattr("sys.stdout", _Terminal())
    assert f"{phase_text('Running'):<9}|" == "\x1b[36mRunning\x1b[0m  |"
    assert phase_text("Open") == "Open"
    monkeypatch.setenv("NO_COLOR", "1")
    assert f"{phase_text('Running'):<9}|" == "Running  |"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert f"{phase_text('Running'):<9}|" == "Running  |"


JOB = {"spec": {"queue": "ml", "minAvailable": 2}, "metadata": {"name": "train", "managedFields": [{}]}}


def test_documents_are_as_kubectl_prints_them() -> None:
    assert documents(kinds.JOB, [JOB], "name") == "job.batch.volcano.sh/train"
    assert documents(kinds.POD, [JOB], "name") == "pod/train"
    assert documents(kinds.JOB, [JOB], "yaml", is_list=False) == (
        "apiVersion: batch.volcano.sh/v1alpha1\n"
        "kind: Job\n"
        "metadata:\n"
        "  name: train\n"
        "spec:\n"
        "  minAvailable: 2\n"
        "  queue: ml"
    )
    assert documents(kinds.JOB, [], "json") == (
        '{\n    "apiVersion": "v1",\n    "items": [],\n    "kind": "List",\n'
        '    "metadata": {\n        "resourceVersion": ""\n    }\n}'
    )


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        (["train", "etl"], "did you mean train?"),
        (["a", "b"], "there are: a, b"),
        ([], "there are none"),
    ],
)
def test_unknown_names_come_with_close_ones(known: list[str], hint: str) -> None:
    error = unknown_name("job", "trian", known, "in namespace default")
    assert str(error) == f'there is no job "trian" in namespace default; {hint}'
    assert error.code == 2


def test_a_duration_is_checked_with_its_rule() -> None:
    assert Duration().convert("1m30s", None, None) == 90.0
    with pytest.raises(click.BadParameter, match="'soon' is not a duration; write numbers with units"):
        Duration().convert("soon", None, None)


class _Root(ReportsErrors, click.Group):
    pass


def test_commands_have_kubectls_flags_and_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    @click.group(cls=_Root)
    def root() -> None:
        pass

    @root.command()
    @on_cluster(everywhere=True)
    async def show(cluster: object) -> None:
        raise AssertionError("there is no cluster")

    shown = set(root.commands["show"].params[0].opts)
    assert shown == {"-n", "--namespace"}
    names = {name for parameter in root.commands["show"].params for name in parameter.opts}
    assert names == {
        "-n", "--namespace", "-A", "--all-namespaces", "--kubeconfig", "--context", "--as", "--as-group"
    }  # fmt: skip
    assert set(Target._fields) == {parameter.name for parameter in root.commands["show"].params}
    with pytest.raises(SystemExit) as ended:
        root.main(["show", "--kubeconfig", f"{tmp_path}/none"])
    assert ended.value.code == 5
    assert "volcanoio: no kubeconfig at " in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        root.main(["show", "--as-group", "team"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "volcanoio: --as-group: a group needs a user to act as; add --as USER\n"


def test_yaml_is_in_the_style_of_kubectl() -> None:
    value = {
        "time": "2026-01-01T00:00:00Z",
        "number": "1",
        "word": "yes",
        "letter": "y",
        "empty": "",
        "colon": "a: b",
        "star": "*",
        "long": " ".join(["word"] * 20),
        "lines": "#!/bin/sh\necho hi\n",
        "list": [{"a": 1}],
    }
    assert yaml_text(value, sort_keys=False) == (
        'time: "2026-01-01T00:00:00Z"\n'
        'number: "1"\n'
        'word: "yes"\n'
        'letter: "y"\n'
        'empty: ""\n'
        "colon: 'a: b'\n"
        "star: '*'\n"
        f"long: {' '.join(['word'] * 16)}\n  {' '.join(['word'] * 4)}\n"
        "lines: |\n  #!/bin/sh\n  echo hi\n"
        "list:\n- a: 1"
    )
