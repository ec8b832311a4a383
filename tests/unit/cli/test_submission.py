"""Jobs from the options of `run` and from scripts: manifests, and errors that name the option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio.cli.act.submission import After, indices, submit
from volcanoio.cli.connection import Cluster
from volcanoio.cli.main import volcanoio
from volcanoio.cli.terminal import UsageError
from volcanoio.client.shards import sharded_job
from volcanoio.kube.client import Client
from volcanoio.kube.transport import Response
from volcanoio.model.documents import load_all_yaml, load_yaml


def _printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main([words[0], "--dry-run=client", *words[1:]])
    found = capsys.readouterr()
    assert ended.value.code == 0, found.err
    return found.out


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main(list(words))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_job_has_what_the_options_say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    text = _printed(
        capsys,
        *("run", "python:3.12", "--name", "train", "-q", "ml", "-r", "4", "-m", "2", "--cpu", "2", "--memory", "4Gi"),
        *("--gpu", "1", "--resources", "example.com/nic=1", "-e", "SEED=7", "-e", "TOKEN", "--priority", "high"),
        *("--plugin", "svc", "--plugin", "pytorch=--master=main --port=1", "--", "python", "-c", "print(1)"),
    )
    container = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", "-c", "print(1)"],
        "env": [{"name": "SEED", "value": "7"}, {"name": "TOKEN", "value": "secret"}],
        "resources": {
            "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1", "example.com/nic": "1"},
            "limits": {"nvidia.com/gpu": "1", "example.com/nic": "1"},
        },
    }
    assert load_yaml(text) == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "minAvailable": 2,
            "queue": "ml",
            "priorityClassName": "high",
            "plugins": {"env": [], "svc": [], "pytorch": ["--master=main", "--port=1"]},
            "tasks": [{"replicas": 4, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}],
        },
    }


def test_an_array_is_one_job_with_a_pod_per_index(capsys: pytest.CaptureFixture[str]) -> None:
    job = load_yaml(_printed(capsys, "run", "busybox", "--name", "a", "--array", "0-9", "--", "./work"))
    assert job["spec"]["tasks"][0]["replicas"] == 10
    assert (job["spec"]["minAvailable"], job["spec"]["minSuccess"]) == (1, 10)
    assert job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"] == ["./work"]
    text = _printed(capsys, "run", "busybox", "--name", "b", "--array", "3,10-20:5", "--", "./work")
    job, table = load_all_yaml(text)
    assert job["spec"]["tasks"][0]["replicas"] == 4
    assert table["metadata"] == {"name": "b-shards"}
    assert table["data"]["table"].splitlines() == [f"export VC_SHARD={index}" for index in (3, 10, 15, 20)]


def test_days_are_shards_with_more_memory_where_it_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    memory = ("--memory", "1Gi", "--limits", "memory=1Gi", "--lifecycle", "oom_scale_up=factor: 2, cap: 16Gi")
    text = _printed(
        capsys, "run", "busybox", "--name", "a", "--days", "2026-02-28..2026-03-01", *memory, "--", "./work"
    )
    job, table = load_all_yaml(text)
    assert table["data"]["table"].splitlines() == ["export VC_SHARD=2026-02-28", "export VC_SHARD=2026-03-01"]
    assert job["metadata"]["annotations"] == {
        "volcanoio.dev/policies": "oom_scale_up",
        "policy-arguments.volcanoio.dev/oom_scale_up": '{"factor": 2, "cap": "16Gi"}',
    }
    assert job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--days", "2026-03-01..2026-02-28", "--", "./work"), "2026-02-28 is before 2026-03-01"),
        (("--days", "2026-03-01"), "--days needs the command that each pod runs; give it after --"),
        (
            ("--days", "2026-03-01", "--array", "1", "--", "./work"),
            "--array and --days are two ways to divide the work",
        ),
        (("--lifecycle", "oom_scale_up=factor: [", "--", "./work"), "--lifecycle: not YAML: "),
    ],
)
def test_divisions_that_cannot_be_used_name_the_option(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in _refused(capsys, "run", "busybox", *options)


@pytest.mark.parametrize(
    ("text", "wanted"), [("0-3", [0, 1, 2, 3]), ("7", [7]), ("0-10:5", [0, 5, 10]), ("1,3, 5-6", [1, 3, 5, 6])]
)
def test_indices(text: str, wanted: list[int]) -> None:
    assert indices(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "no index or range; write for instance 0-9"),
        ("3-1", "is empty; write the smaller number first"),
        ("1,1", "has an index twice"),
        ("0-50000", "a job has at most 50000 pods"),
        ("0-9%2", "no index or range"),
    ],
)
def test_what_is_no_index_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        indices(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "give an image, such as: volcanoio run busybox -- echo hello"),
        (["run", "x", "--array", "0-1"], "--array needs the command that each pod runs; give it after --"),
        (["run", "x", "-e", "1=2"], '--env: "1=2" is not NAME=VALUE'),
        (["run", "x", "-e", "NOT_SET_HERE"], '--env: "NOT_SET_HERE" is not set here'),
        (["run", "x", "--wait", "--follow"], "--follow and --wait are two ways to wait"),
        (["run", "x", "--wait", "--dry-run=client"], "with --dry-run there is no job to wait for"),
        (["run", "x", "--timeout", "3s"], "--timeout is for --wait, --watch and --follow"),
        (["run", "-f", "job.yaml", "--cpu", "1"], "-f: the file has what the job is; leave --cpu out"),
        (["run", "-f", "none.yaml"], "none.yaml: No such file or directory; give the path of a manifest or a script"),
        (["submit"], "give a file, such as: volcanoio submit job.yaml"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in _refused(capsys, *words)


def test_the_job_of_a_file_may_have_another_name_and_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.json"
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"tasks": []}}
    file.write_text(json.dumps(job))
    shown = json.loads(_printed(capsys, "run", "-f", str(file), "--name", "k", "-q", "ml", "-o", "json"))
    assert (shown["metadata"]["name"], shown["spec"]["queue"]) == ("k", "ml")
    assert _printed(capsys, "submit", str(file), "-o", "name") == "job.batch.volcano.sh/j\n"


SLURM = """\
#!/bin/bash -e
#SBATCH --job-name=train -p ml
#SBATCH -c4 --mem=2G
#SBATCH --gres=gpu:a100:2 --time=1-02:30
#SBATCH --export=ALL,SEED=7
#VIO --image python:3.12 --plugin svc

python train.py
#SBATCH --job-name=late
"""


def test_a_script_of_slurm_becomes_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.sh"
    file.write_text(SLURM)
    job = load_yaml(_printed(capsys, "submit", str(file)))
    spec = job["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (job["metadata"]["name"], spec["queue"], spec["runningEstimate"]) == ("train", "ml", "26h30m0s")
    assert container["command"] == ["/bin/bash", "-e", "-c", SLURM]
    assert container["resources"]["requests"] == {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": "2"}
    assert container["env"] == [{"name": "SEED", "value": "7"}]
    assert spec["plugins"] == {"env": [], "svc": []}


def test_an_array_of_slurm_finds_its_index_in_the_variable_of_slurm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.sh"
    file.write_text("#!/bin/sh\n#SBATCH -a 0-3 --nodes=2\n#VIO --image busybox\necho $SLURM_ARRAY_TASK_ID\n")
    with pytest.raises(SystemExit):
        volcanoio.main(["submit", "--dry-run=client", "-o", "json", str(file), "--queue", "q"])
    found = capsys.readouterr()
    job = json.loads(found.out)
    command = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"]
    assert command[-1].splitlines()[1] == 'export SLURM_ARRAY_TASK_ID="${VC_SHARD:-$VC_TASK_INDEX}"'
    assert (job["metadata"]["name"], job["spec"]["queue"], job["spec"]["tasks"][0]["replicas"]) == ("a", "q", 4)
    assert found.err == f"note: {file}: #SBATCH --nodes has no counterpart here and is left out\n"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", "no image; add a line such as #VIO --image busybox, or give --image"),
        ("#VIO --imge x", "#VIO: No such option '--imge'"),
        ('#VIO --image "x', "line 2: no closing quotation; close the quotes"),
        ("#SBATCH --mem=lots", '#SBATCH --mem: "lots" is not a size; write for instance 4G'),
        ("#SBATCH --time=soon", '#SBATCH --time: "soon" is not a time; write for instance 02:30:00'),
    ],
)
def test_headers_that_cannot_be_used_are_refused(
    header: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.sh"
    file.write_text(f"#!/bin/sh\n{header}\necho x\n")
    text = _refused(capsys, "submit", str(file))
    assert text.startswith(f"volcanoio: {file}")
    assert said in text


async def test_a_job_does_not_run_the_shards_of_an_earlier_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The ConfigMap of a deleted job is there until the garbage collector has seen it."""

    async def respond(call: Call) -> Response:
        if call.path.endswith("/configmaps"):
            return refusal(409, "AlreadyExists", 'configmaps "a-shards" already exists')
        return answer({**(call.body or {}), "metadata": {"name": "a", "namespace": "ns", "uid": "u"}})

    transport = ScriptedTransport(respond)
    sharded = sharded_job("true", {"image": "busybox", "name": "a"}, rows=["x"])
    with click.Context(click.Command("run"), info_name="volcanoio"):
        assert await submit(Cluster(Client(transport), "ns"), [sharded], After()) == 1
    assert [(call.method, call.path.rpartition("/")[2]) for call in transport.calls] == [
        ("POST", "jobs"), ("POST", "configmaps"), ("DELETE", "a"),
    ]  # fmt: skip
    assert "job a is not run: it needs a ConfigMap a-shards of its own; delete that" in capsys.readouterr().err
