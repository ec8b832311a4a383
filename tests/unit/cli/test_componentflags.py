"""The table of flags: each flag of each component in each form, its default, its errors and its line in the docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from tests.architecture import flags_page
from volcanoio.cli.componentflags import (
    ADDRESS,
    BOOL,
    CONFIG_MAP,
    COUNT,
    DEPTH,
    DURATION,
    FLAGS,
    GATE_LIST,
    GATES,
    INTEGER,
    LABELS,
    LIST,
    LOCK,
    LOG_FORMAT,
    NAMES,
    NODE_RESOURCES,
    PATH,
    PATHS,
    PERIOD,
    PORT,
    QUEUE,
    RATE,
    SCHEDULING,
    SECONDS,
    SHARDING,
    SHARDS,
    STABLE_GATES,
    TEXT,
    URL,
    Address,
    ComponentCommand,
    Flag,
    Kind,
    SchedulerFlags,
    flags,
    flags_of,
    gates_of,
    notes,
    version_flag,
)
from volcanoio.cli.main import volcanoio
from volcanoio.cli.terminal import CommandError
from volcanoio.compose.options import DEFAULT_RESOURCES
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.runtime.controllers.setup import DEFAULT_CONTROLLERS
from volcanoio.runtime.loading.configmap_source import ConfigMapKey

OF_SIMULATE_ALONE = {
    "files",
    "live",
    "run_time",
    "scheduler_url",
    "until",
    "conf",
    "cycles",
    "output",
    "now",
    "kubeconfig",
    "compare",
    "add_nodes",
    "set_fields",
    "submit",
}
COMPONENTS = ("scheduler", "controllers", "webhooks", "hollow-nodes")
SAMPLES: dict[Kind, tuple[str, object, tuple[str, str] | None]] = {
    BOOL: ("false", False, ("maybe", '"maybe" is neither true nor false; write one of these')),
    TEXT: ("some text", "some text", None),
    PATH: ("/a/b", Path("/a/b"), None),
    PATHS: ("/a,/b", (Path("/a"), Path("/b")), None),
    COUNT: ("7", 7, ("-1", '"-1" is not a whole number from 0 on; give one')),
    INTEGER: ("-1", -1, ("1.5", '"1.5" is not a whole number; give one')),
    PORT: ("443", 443, ("65536", '"65536" is not a whole number 1 to 65535; give one')),
    DEPTH: ("3", 3, ("0", '"0" is not a whole number from 1 on; give one')),
    SECONDS: ("0.5", 0.5, ("-1", '"-1" is not a number of seconds; give one such as 0.5')),
    RATE: ("2.5", 2.5, ("inf", '"inf" is not a number of requests per second; give one such as 50')),
    DURATION: ("1m30s", 90.0, ("5", "'5' is not a duration; write numbers with units")),
    PERIOD: ("250ms", 0.25, ("0", "it must be longer than 0; write for instance 1s")),
    ADDRESS: ("[::1]:80", Address("::1", 80), ("80", '"80" is not an address; write HOST:PORT, or :PORT for every')),
    URL: ("https://a:6443/", "https://a:6443", ("a:6443", '"a:6443" is not an http(s) URL; write for instance')),
    QUEUE: ("batch", "batch", ("A b", '"A b" cannot be the name of a queue: ')),
    NAMES: ("one,two", ("one", "two"), ("", "a name must not be empty; give one such as volcano")),
    LIST: ("one, two,", ("one", "two"), None),
    LABELS: ("zone:a,zone:b", (("zone", "a"), ("zone", "b")), ("zone", "zone is not a label; write KEY:VALUE")),
    GATE_LIST: (
        "WorkLoadSupport=false", (("WorkLoadSupport", False),), ("WorkloadSupport=true", 'did you mean "WorkLoadSupp')
    ),
    CONFIG_MAP: ("a/b/c", ConfigMapKey("a", "b", "c"), ("a/b", '"a/b" names no key of a ConfigMap; write')),
    LOG_FORMAT: ("json", "json", ("xml", "there is no xml; write json or console")),
    SHARDS: ("a:b:0:1:false:0:9", ("a:b:0:1:false:0:9",), ("a", '"a" is not a scheduler; write NAME:TYPE:MINCPU')),
    SHARDING: ("hard", "hard", ("off", "there is no off; write none or hard or soft")),
    LOCK: ("leases", "leases", ("endpoints", "there is no lock endpoints; write leases, as Kubernetes removed")),
}  # fmt: skip
"""For each kind of value: a text, what it means, and an invalid text with the beginning of the rule."""
CASES = [
    pytest.param(command, flag, id=f"{command}--{flag.name}") for command in COMPONENTS for flag in flags_of(command)
]


def parsed(command: str, *words: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of a component's flags, and the notes about those without effect."""

    @click.command(cls=ComponentCommand)
    @flags(command)
    def component(**given: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        return given, notes(click.get_current_context())

    required = [f"--{flag.name}={SAMPLES[flag.kind][0]}" for flag in flags_of(command) if flag.is_required]
    context = component.make_context(command, [*required, *words])
    with context:
        result: tuple[dict[str, Any], tuple[str, ...]] = component.invoke(context)
    return result


@pytest.mark.parametrize(("command", "flag"), CASES)
def test_each_flag_is_accepted_in_each_form(command: str, flag: Flag) -> None:
    text, meaning, _ = SAMPLES[flag.kind]
    underscored = flag.name.replace("-", "_")
    for words in (
        [f"--{flag.name}={text}"],
        [f"-{flag.name}={text}"],
        [f"--{underscored}={text}", "2>&1"],
        *([] if flag.kind is BOOL else [[f"--{flag.name}", text]]),
    ):
        given, said = parsed(command, *words)
        if flag.without_effect:
            assert flag.variable not in given
            is_of_logs = "stderr" in flag.without_effect
            assert [f"--{flag.name}" in note for note in said] == ([] if is_of_logs else [True])
        else:
            assert given[flag.variable] == meaning


@pytest.mark.parametrize(("command", "flag"), CASES)
def test_the_default_is_a_value_as_on_the_command_line(command: str, flag: Flag) -> None:
    default = flag.default_of(command)
    if default:
        assert parsed(command, f"--{flag.name}={default}")[0] == parsed(command)[0]
    elif not flag.is_required:
        empty: object = () if flag.kind.is_list else "" if flag.kind is TEXT else None
        for words in ([], [f"--{flag.name}="]):
            assert parsed(command, *words)[0].get(flag.variable, empty) == empty


@pytest.mark.parametrize(("command", "flag"), CASES)
def test_an_invalid_value_is_named_with_its_flag_the_rule_and_the_next_step(command: str, flag: Flag) -> None:
    _, _, wrong = SAMPLES[flag.kind]
    if wrong is None:
        return
    with pytest.raises(CommandError) as refused:
        parsed(command, f"--{flag.name}={wrong[0]}")
    assert str(refused.value).startswith(f"--{flag.name}: ")
    assert wrong[1] in str(refused.value)


def test_switches_alone_are_on_and_the_last_of_several_counts() -> None:
    assert parsed("scheduler", "--enable-healthz")[0]["enable_healthz"] is True
    assert parsed("scheduler", "-enable_healthz", "--enable-healthz=F")[0]["enable_healthz"] is False
    assert parsed("scheduler", "--schedule-period=2s", "--schedule-period", "3s")[0]["schedule_period"] == 3.0
    assert parsed("scheduler", "--scheduler-name=a", "--scheduler-name", "b,c")[0]["scheduler_name"] == ("a", "b", "c")


@pytest.mark.parametrize("words", [["-v=5"], ["-v", "5"], ["-v5"], ["--v=5"]])
def test_the_log_level_has_klogs_forms(words: list[str]) -> None:
    assert parsed("controllers", *words)[0]["v"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--schedule-perod=1s"], "--schedule-perod: there is no such flag; did you mean --schedule-period?; "),
        (["--xyz"], "--xyz: there is no such flag; command --help lists all"),
        (["start"], '"start" is not a flag; write --NAME=VALUE, a switch as --NAME=false; command --help lists'),
        (["--leader-elect", "false"], '"false" is not a flag; write --NAME=VALUE, a switch as --NAME=false'),
        (["--schedule-period"], "--schedule-period: its value is missing; write --schedule-period=DURATION"),
    ],
)
def test_words_that_are_no_flags_are_errors(words: list[str], said: str) -> None:
    @click.command(cls=ComponentCommand)
    @flags("scheduler")
    def command(**given: Any) -> None: ...

    with pytest.raises(CommandError) as refused:
        command.make_context("command", words)
    assert str(refused.value).startswith(said)


def test_volcanos_own_command_lines_are_accepted() -> None:
    """The arguments of its Helm chart."""
    for words in (
        ["--logtostderr", "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf", "--enable-healthz=true",
         "--enable-metrics=true", "--leader-elect=false", "--kube-api-qps=2000", "--kube-api-burst=2000",
         "--schedule-period=1s", "--node-worker-threads=20", "-v=3", "2>&1"],
    ):  # fmt: skip
        given, said = parsed("scheduler", *words)
        assert (given["leader_elect"], given["kube_api_qps"], given["v"]) == (False, 2000.0, 3)
        assert said == ("--node-worker-threads: without effect, as one event loop does this work",)
    given, _ = parsed(
        "controllers", "--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--leader-elect=false",
        "--kube-api-qps=50", "--worker-threads-for-gc=5", "--worker-threads-for-podgroup=5", "-v=4", "2>&1",
    )  # fmt: skip
    assert given["listen_address"] == Address("", 8081)


def test_an_address_may_be_empty_and_a_limit_of_requests_negative() -> None:
    given, _ = parsed("scheduler", "--listen-address=", "--healthz-address=", "--kube-api-qps=-1")
    assert (given["listen_address"], given["healthz_address"], given["kube_api_qps"]) == (None, None, 0.0)


def test_flags_without_effect_are_noted_with_the_reason_once() -> None:
    _, said = parsed("controllers", "--worker-threads=9", "--worker-threads-for-gc=2", "--logtostderr=false")
    assert said == ("--worker-threads, --worker-threads-for-gc: without effect, as one event loop does this work",)


@pytest.mark.parametrize("command", ["controllers", "up", "demo"])
def test_all_controllers_run_by_default(command: str) -> None:
    (flag,) = (flag for flag in flags_of(command) if flag.name == "controllers")
    assert tuple(flag.default.split(",")) == DEFAULT_CONTROLLERS


def test_each_flag_of_the_scheduler_that_simulate_takes_is_an_option_of_up() -> None:
    simulate, up = ({each.name for each in volcanoio.commands[name].params} for name in ("simulate", "up"))
    assert simulate - up == OF_SIMULATE_ALONE


def test_the_commands_have_the_flags_of_the_table() -> None:
    for name, command in volcanoio.commands.items():
        wanted = {flag.variable for flag in flags_of(name)}
        assert wanted <= {each.name for each in command.params}, name
    assert {name for flag in FLAGS for name in flag.of.split()} <= volcanoio.commands.keys()


def test_the_number_of_hollow_nodes_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        volcanoio.main(["hollow-nodes", "-v=3", "--logtostderr"])
    assert ended.value.code == 2
    assert "Missing option '--count'" in capsys.readouterr().err


def test_nodes_have_the_same_resources_by_default_in_commands_and_code() -> None:
    assert NODE_RESOURCES == DEFAULT_RESOURCES


@pytest.mark.parametrize("name", COMPONENTS)
def test_each_component_accepts_gos_forms(name: str) -> None:
    assert isinstance(volcanoio.commands[name], ComponentCommand)


def test_no_command_has_a_flag_twice() -> None:
    for command in COMPONENTS:
        names = [flag.name for flag in flags_of(command)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("words", [["--version"], ["--version=true"], ["-version"]])
def test_the_version_is_printed_and_ends_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    @click.command(cls=ComponentCommand)
    @version_flag
    def command() -> None:
        raise AssertionError

    with pytest.raises(click.exceptions.Exit):
        command.make_context("command", words)
    assert capsys.readouterr().out.startswith("volcanoio ")


def test_the_page_is_generated() -> None:
    assert flags_page.PAGE.read_text() == flags_page.written(), "run `make flags`"


def test_the_page_contains_each_feature_gate_with_its_default() -> None:
    rows = [row.split(" | ") for row in flags_page.PAGE.read_text().splitlines() if row.startswith("| `")]
    documented = {name: row[1] for row in rows if len(row) == 3 for name in re.findall(r"`(\w+)`", row[0])}
    assert {name: f"`{on}`".lower() for name, on in GATES.items()}.items() <= documented.items()


def taken(*arguments: str) -> SchedulerFlags:
    """What the flags of scheduling come to."""

    @click.command()
    @flags("up", only=SCHEDULING)
    def command(**given: Any) -> SchedulerFlags:
        result = SchedulerFlags.take(given)
        assert given == {}
        return result

    result = command.main(arguments, standalone_mode=False)
    assert isinstance(result, SchedulerFlags)
    return result


def test_without_flags_the_scheduler_is_volcanos_default() -> None:
    assert taken() == SchedulerFlags("default", 1.0, None, frozenset(), ())


def test_flags_select_the_part_of_the_cluster() -> None:
    flags = taken(
        "--node-selector=zone:a,zone:b", "--ignored-provisioners=one,two", "--priority-class=false",
        "--csi-storage=false", "--feature-gates=PodDisruptionBudgetsSupport=false", "--default-queue=q",
        "--schedule-period=250ms",
    )  # fmt: skip
    without = (
        "priorityclasses.scheduling.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "poddisruptionbudgets.policy",
    )
    scope = Scope(without, (("zone", "a"), ("zone", "b")), ("one", "two"))
    assert flags == SchedulerFlags("q", 0.25, scope, frozenset(), ())


def test_gates_are_switched_on_and_those_without_effect_are_named() -> None:
    flags = taken("--feature-gates", "SchedulingGatesQueueAdmission=true,ResourceTopology=false", "--csi-storage")
    assert flags.feature_gates == {FeatureGate.QUEUE_ADMISSION}
    assert flags.notes == ("--feature-gates: ResourceTopology: without effect here",)


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ("AllAlpha=true", {"CSIStorage": True, "SchedulingGatesQueueAdmission": True}),
        ("AllAlpha=T,CSIStorage=F", {"SchedulingGatesQueueAdmission": True}),
        ("CSIStorage=1, AllAlpha = false", {name: name == "CSIStorage" for name in GATES if name not in STABLE_GATES}),
        ("AllBeta=false", {}),
    ],
)
def test_all_alpha_sets_volcanos_gates_that_are_not_given(given: str, changed: dict[str, bool]) -> None:
    assert gates_of(parsed("scheduler", f"--feature-gates={given}")[0]["feature_gates"]) == GATES | changed
