"""Host lists of any length: Volcano's as long as they fit, and nothing over its limit beyond that."""

from __future__ import annotations

import base64
import fnmatch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.job.hostlists import MAX_VARIABLE_BYTES, entries_to_shorten, split_lines
from volcanoio_plugins.job.ssh import SshPlugin
from volcanoio_plugins.job.svc import SvcPlugin

from tests.examples import examples
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job

OBJECT = 256 * 1024


def job(name: str, *tasks: tuple[str, int]) -> Job:
    listed = [{"name": task, "replicas": replicas} for task, replicas in tasks]
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"}, "spec": {"tasks": listed}}, Job)


def made(plugin: JobPlugin, one: Job) -> list[Manifest]:
    """The manifests of the plugin's objects, each within its limit even with long metadata."""
    manifests = [support.manifest for support in plugin.owned_objects(one)]
    for manifest in manifests:
        assert len(msgspec.json.encode(manifest)) + 2048 < OBJECT
    return manifests


def config_maps(one: Job) -> list[dict[str, str]]:
    return [each["data"] for each in made(SvcPlugin([]), one) if each["kind"] == kinds.CONFIG_MAP.kind]


def addresses(name: str, task: str, count: int) -> list[str]:
    return [f"{name}-{task}-{index}.{name}" for index in range(count)]


def test_four_thousand_hosts_are_listed_as_upstream() -> None:
    (data,) = config_maps(job("a-big-one", ("worker", 4000)))
    hosts = addresses("a-big-one", "worker", 4000)
    assert data == {"worker.host": "\n".join(hosts), "VC_WORKER_HOSTS": ",".join(hosts), "VC_WORKER_NUM": "4000"}


def test_a_variable_gives_way_before_the_file_does() -> None:
    (data,) = config_maps(job("a-big-one", ("worker", 6000)))
    assert data["worker.host"] == "\n".join(addresses("a-big-one", "worker", 6000))
    assert data["VC_WORKER_HOSTS"] == "a-big-one-worker-[0-5999].a-big-one"
    assert data["VC_WORKER_NUM"] == "6000"


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_a_file_that_is_too_long_is_a_range_with_its_lines_in_parts(count: int) -> None:
    lists, *pieces = config_maps(job("a-big-one", ("master", 1), ("worker", count)))
    host_range = f"a-big-one-worker-[0-{count - 1}].a-big-one"
    assert lists == {
        "master.host": "a-big-one-master-0.a-big-one",
        "VC_MASTER_HOSTS": "a-big-one-master-0.a-big-one",
        "VC_MASTER_NUM": "1",
        "worker.host": host_range,
        "VC_WORKER_HOSTS": host_range,
        "VC_WORKER_NUM": str(count),
    }
    files = {name: text for piece in pieces for name, text in piece.items()}
    assert list(files) == [f"worker.host.{number:03d}" for number in range(len(pieces))]
    lines = [line for name in sorted(files) for line in files[name].split("\n")]
    assert lines == addresses("a-big-one", "worker", count)


def test_pods_mount_the_parts_beside_the_lists() -> None:
    plugin, one = SvcPlugin([]), job("a-big-one", ("worker", 10_000))
    built: Manifest = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    plugin.on_pod_create(built, one, one.spec.tasks[0], 0)
    assert built["spec"]["volumes"] == [
        {
            "name": "a-big-one-svc",
            "projected": {
                "sources": [
                    {"configMap": {"name": "a-big-one-svc"}},
                    {"configMap": {"name": "a-big-one-svc-0", "optional": True}},
                    {"configMap": {"name": "a-big-one-svc-1", "optional": True}},
                ]
            },
        }
    ]


@examples(40)
@given(
    tasks=st.lists(st.integers(0, 6000), min_size=1, max_size=5),
    length=st.sampled_from([1, 20, 45]),
)
def test_all_pods_are_listed_within_the_limits(tasks: list[int], length: int) -> None:
    name = "j" * length
    one = job(name, *((f"t{number}", count) for number, count in enumerate(tasks)))
    lists, *pieces = config_maps(one)
    files = {file: text for piece in pieces for file, text in piece.items()}
    for number, count in enumerate(tasks):
        hosts = addresses(name, f"t{number}", count)
        whole = lists[f"t{number}.host"]
        if f"t{number}.host.000" in files:
            assert whole == f"{name}-t{number}-[0-{count - 1}].{name}"
            whole = "\n".join(files[file] for file in sorted(files) if file.startswith(f"t{number}.host."))
        assert whole == "\n".join(hosts)
        variable = lists[f"VC_T{number}_HOSTS"]
        assert variable in (",".join(hosts), f"{name}-t{number}-[0-{count - 1}].{name}")
        assert len(f"VC_T{number}_HOSTS={variable}") <= MAX_VARIABLE_BYTES
        assert lists[f"VC_T{number}_NUM"] == str(count)


def ssh_config(one: Job) -> list[tuple[str, str]]:
    """The names of the `Host` entries and where they lead."""
    (secret,) = made(SshPlugin([]), one)
    lines = base64.b64decode(secret["data"]["config"]).decode().splitlines()[2:]
    assert lines[2::3] == ["  Port 22"] * (len(lines) // 3)
    return [
        (host.removeprefix("Host "), leads.removeprefix("  HostName "))
        for host, leads in zip(lines[0::3], lines[1::3], strict=True)
    ]


def resolved(entries: list[tuple[str, str]], name: str) -> str:
    """Where ssh goes for a name: the first entry whose patterns fit and none of whose negated ones does."""
    for patterns, leads in entries:
        wanted = [pattern for pattern in patterns.split() if not pattern.startswith("!")]
        unwanted = [pattern[1:] for pattern in patterns.split() if pattern.startswith("!")]
        if any(fnmatch.fnmatchcase(name, each) for each in wanted) and not any(
            fnmatch.fnmatchcase(name, each) for each in unwanted
        ):
            return leads.replace("%h", name)
    return name


def test_a_client_configuration_that_is_too_long_has_a_pattern_for_each_long_task() -> None:
    one = job("a-big-one", ("master", 1), ("w", 5000), ("w-x", 5000), ("few", 3))
    assert ssh_config(one) == [
        ("a-big-one-master-0", "a-big-one-master-0.a-big-one"),
        *((f"a-big-one-few-{index}", f"a-big-one-few-{index}.a-big-one") for index in range(3)),
        ("a-big-one-w-x-* !*.*", "%h.a-big-one"),
        ("a-big-one-w-* !*.*", "%h.a-big-one"),
    ]


@examples(20)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.data())
def test_ssh_finds_every_pod_however_many_there_are(tasks: list[int], data: st.DataObject) -> None:
    one = job("a-big-one", *(("-".join(["t"] * (number + 1)), count) for number, count in enumerate(tasks)))
    entries = ssh_config(one)
    for task in one.spec.tasks:
        if task.replicas:
            name = f"a-big-one-{task.name}-{data.draw(st.integers(0, task.replicas - 1))}"
            assert resolved(entries, name) == f"{name}.a-big-one"
            assert resolved(entries, f"{name}.a-big-one") == f"{name}.a-big-one"


def test_only_as_much_is_shortened_as_has_to_be() -> None:
    assert entries_to_shorten({"a": 5, "b": 9, "c": 7}, 21) == set()
    assert entries_to_shorten({"a": 5, "b": 9, "c": 7}, 12) == {"b"}
    assert entries_to_shorten({"a": 5, "b": 9, "c": 7}, 11) == {"b", "c"}
    assert split_lines(["aa", "bb", "cc"], 8) == ["aa\nbb", "cc"]
    assert split_lines([], 8) == []
