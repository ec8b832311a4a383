"""The help of vcctl and of Volcano's tools of one command is Volcano's, byte for byte.

The expected texts are those that Volcano's own tests compare (test/e2e/vcctl), with the commands that came later.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from volcanoio.cli.vcctl import tools, vcctl

GLOBAL = """\
Global Flags:
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -v, --v Level                        number for the log level verbosity
      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging \
(only works for the default text log format)
"""
HELP = {
    "": """\
Usage:
  vcctl [command]

Available Commands:
  help        Help about any command
  job         vcctl command line operation job
  jobflow     vcctl command line operation jobflow
  jobtemplate vcctl command line operation jobtemplate
  pod         vcctl command line operation pod
  queue       Queue Operations
  version     Print the version information

Flags:
  -h, --help                           help for vcctl
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -v, --v Level                        number for the log level verbosity
      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging \
(only works for the default text log format)

Use "vcctl [command] --help" for more information about a command.
""",
    "job": f"""\
vcctl command line operation job

Usage:
  vcctl job [command]

Available Commands:
  delete      delete a job
  list        list job information
  resume      resume a job
  run         run job by parameters from the command line
  suspend     abort a job
  view        show job information

Flags:
  -h, --help   help for job

{GLOBAL}
Use "vcctl job [command] --help" for more information about a command.
""",
    "job list": f"""\
list job information

Usage:
  vcctl job list [flags]

Flags:
      --all-namespaces      list jobs in all namespaces
  -h, --help                help for list
  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file
  -s, --master string       the address of apiserver
  -n, --namespace string    the namespace of job (default "default")
  -q, --queue string        list job with specified queue name
  -S, --scheduler string    list job with specified scheduler name
      --selector string     fuzzy matching jobName

{GLOBAL}""",
    "job suspend -n job1": f"""\
abort a job

Usage:
  vcctl job suspend [flags]

Flags:
  -h, --help                help for suspend
  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file
  -s, --master string       the address of apiserver
  -N, --name string         the name of job
  -n, --namespace string    the namespace of job (default "default")

{GLOBAL}""",
    "job run": f"""\
run job by parameters from the command line

Usage:
  vcctl job run [flags]

Flags:
  -f, --filename string     the yaml file of job
  -h, --help                help for run
  -i, --image string        the container image of job (default "busybox")
  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file
  -L, --limits string       the resource limit of the task (default "cpu=1000m,memory=100Mi")
  -s, --master string       the address of apiserver
  -m, --min int             the minimal available tasks of job (default 1)
  -N, --name string         the name of job
  -n, --namespace string    the namespace of job (default "default")
  -r, --replicas int        the total tasks of job (default 1)
  -R, --requests string     the resource request of the task (default "cpu=1000m,memory=100Mi")
  -S, --scheduler string    the scheduler for this job (default "volcano")

{GLOBAL}""",
    "queue operate": f"""\
operate queue

Usage:
  vcctl queue operate [flags]

Flags:
  -a, --action string       operate action to queue, valid actions are open, close, update
  -h, --help                help for operate
  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file
  -s, --master string       the address of apiserver
  -n, --name string         the name of queue
  -w, --weight int32        the weight of the queue

{GLOBAL}""",
}
VJOBS = """\
view information of a job with specified name or jobs from the same namespace

Usage:
  vjobs [flags]

Flags:
      --all-namespaces                 list jobs in all namespaces
  -h, --help                           help for vjobs
  -k, --kubeconfig string              (optional) absolute path to the kubeconfig file
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -s, --master string                  the address of apiserver
  -n, --name string                    the name of job
  -N, --namespace string               the namespace of job (default "default")
  -S, --scheduler string               list job with specified scheduler name
      --selector string                fuzzy matching jobName
"""


@pytest.mark.parametrize("words", HELP)
def test_help_of_vcctl(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert vcctl.main([*words.split(), "--help"], prog_name="vcctl") == 0
    assert capsys.readouterr().out == HELP[words]


def test_help_of_a_tool_of_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert tools.vjobs.main(["-h"], prog_name="vjobs") == 0
    assert capsys.readouterr().out == VJOBS


def test_an_unknown_flag_of_a_tool_ends_it_with_the_code_of_volcano(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tools.vsub.main(["--image-name", "busybox"], prog_name="vsub")
    assert ended.value.code == 254
    assert capsys.readouterr().out.startswith("Failed to execute vsub: No such option '--image-name'.")


def test_output_that_cannot_be_written_is_one_line_on_stderr() -> None:
    code = "import sys; sys.argv[0] = 'vcctl'; from volcanoio.cli.vcctl import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-u", "-c", code, "--help"], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (
        255,
        "vcctl: cannot write the output: No space left on device; send it elsewhere\n",
    )
