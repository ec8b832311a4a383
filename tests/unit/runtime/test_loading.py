"""Plugins by name from entry points and directories, and what is said about those that do not fit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from volcanoio.framework import entrypoints
from volcanoio.runtime.loading.interfaces import problems
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import Candidate, PluginError, Registry, discover

POLICY = """
from __future__ import annotations
import msgspec
from volcanoio.framework.decisions import Abstain

class Arguments(msgspec.Struct):
    factor: float = 2.0

class {cls}:
    name = "{name}"

    def __init__(self, arguments):
        pass

    async def decide(self, context):
        return Abstain()
"""

JOB_PLUGIN = """
from volcanoio.framework.jobs import JobPlugin

class Banner(JobPlugin):
    name = "banner"
    def on_pod_create(self, pod, job, task, index): ...
"""


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def candidate(
    name: str, factory: Any, origin: str = "some-dist 1.0", group: str = entrypoints.LIFECYCLE_POLICIES
) -> Candidate:
    return Candidate(group, name, origin, lambda: factory)


class Good:
    """A policy."""

    name = "good"

    def __init__(self, arguments: Any) -> None: ...

    async def decide(self, context: Any) -> Any: ...


def test_a_mounted_policy_is_found_by_its_name_with_the_hash_of_its_source(tmp_path: Path) -> None:
    path = write(tmp_path, "retry.py", POLICY.format(cls="Retry", name="retry-on-oom"))
    loaded = discover(policies_dirs=[tmp_path]).get(entrypoints.LIFECYCLE_POLICIES, "retry-on-oom")
    assert loaded.factory.__name__ == "Retry"
    assert loaded.origin == f"retry.py sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_two_versions_of_a_file_do_not_share_a_module(tmp_path: Path) -> None:
    write(tmp_path, "retry.py", POLICY.format(cls="Retry", name="retry"))
    first = discover(policies_dirs=[tmp_path]).get(entrypoints.LIFECYCLE_POLICIES, "retry").factory
    write(tmp_path, "retry.py", POLICY.format(cls="Retry", name="retry") + "\n# second\n")
    second = discover(policies_dirs=[tmp_path]).get(entrypoints.LIFECYCLE_POLICIES, "retry").factory
    assert first is not second
    assert first.__module__ != second.__module__


def test_links_of_a_configmap_and_private_files_are_skipped(tmp_path: Path) -> None:
    for name in ("_helper.py", "..data.py", "test_banner.py", "notes.txt"):
        write(tmp_path, name, "raise RuntimeError('must not run')")
    (tmp_path / "..2026_11_20").mkdir()
    write(tmp_path, "banner.py", JOB_PLUGIN)
    registry = discover(plugins_dirs=[tmp_path])
    assert "banner" in registry.names(entrypoints.JOB_PLUGINS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class (", "line 1: cannot be loaded: SyntaxError"),
        ("class Nothing: pass", "announces no lifecycle policy"),
        ("from volcanoio.framework.probe import NoProbe", "announces no lifecycle policy"),
    ],
)
def test_a_file_that_does_not_load_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "bad.py", text)
    with pytest.raises(MountError) as caught:
        discover(policies_dirs=[tmp_path])
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_every_user_can_write_is_not_run(tmp_path: Path) -> None:
    write(tmp_path, "retry.py", POLICY.format(cls="Retry", name="retry")).chmod(0o666)
    with pytest.raises(MountError, match=r"retry\.py: every user can write it"):
        discover(policies_dirs=[tmp_path])


def mounted(volume: Path) -> Path:
    """Write a policy as the kubelet's atomic writer does; returns the directory that `..data` refers to."""
    volume.mkdir()
    volume.chmod(0o777)  # as kubelets leave it
    version = volume / "..2026_11_20_10_00_00.1"
    version.mkdir(mode=0o755)
    write(version, "retry.py", POLICY.format(cls="Retry", name="retry"))
    (volume / "..data").symlink_to(version.name)
    (volume / "retry.py").symlink_to("..data/retry.py")
    return version


def mount_read_only(monkeypatch: pytest.MonkeyPatch, volume: Path) -> None:
    def statvfs(path: Path) -> SimpleNamespace:
        return SimpleNamespace(f_flag=os.ST_RDONLY if path.is_relative_to(volume) else 0)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_a_mounted_config_map_is_read_although_its_directory_is_open_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(tmp_path / "volume")
    mount_read_only(monkeypatch, tmp_path / "volume")
    registry = discover(policies_dirs=[tmp_path / "volume"])
    assert "retry" in registry.names(entrypoints.LIFECYCLE_POLICIES)


def test_a_file_that_every_user_can_replace_is_not_run(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    version = mounted(volume)
    with pytest.raises(MountError, match=rf"volume/retry\.py: every user can write directory {volume}, and the file"):
        discover(policies_dirs=[volume])
    volume.chmod(0o755)
    discover(policies_dirs=[volume])
    version.chmod(0o777)
    with pytest.raises(MountError, match=rf"directory {version}, and .*; chmod o-w it, or mount it read-only"):
        discover(policies_dirs=[volume])
    version.chmod(0o755)
    tmp_path.chmod(0o777)  # the whole volume can be exchanged
    with pytest.raises(MountError, match=f"directory {tmp_path}, and"):
        discover(policies_dirs=[volume])


def test_in_a_directory_with_the_sticky_bit_only_files_of_ours_are_run(tmp_path: Path) -> None:
    path = write(tmp_path, "retry.py", POLICY.format(cls="Retry", name="retry"))
    tmp_path.chmod(0o1777)
    discover(policies_dirs=[tmp_path])
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(MountError, match=f"every user can write directory {tmp_path}"):
            discover(policies_dirs=[tmp_path])


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="not a directory"):
        discover(plugins_dirs=[tmp_path / "absent"])


def test_a_name_found_twice_is_an_error_that_names_both(tmp_path: Path) -> None:
    write(tmp_path, "a.py", POLICY.format(cls="A", name="same"))
    write(tmp_path, "b.py", POLICY.format(cls="B", name="same"))
    with pytest.raises(PluginError, match=r'"same" is registered twice: by a\.py sha256:.* and by b\.py'):
        discover(policies_dirs=[tmp_path])


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(PluginError, match=r'there is no lifecycle policy "godo"; did you mean "good"\?'):
        Registry([candidate("good", Good)]).get(entrypoints.LIFECYCLE_POLICIES, "godo")


def test_the_same_name_in_two_groups_is_fine() -> None:
    registry = Registry([candidate("good", Good), candidate("good", Good, group=entrypoints.ACTIONS)])
    assert registry.origins(entrypoints.ACTIONS) == {"good": "some-dist 1.0"}


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    def explode() -> Any:
        raise ImportError("no module named torch")

    registry = Registry([Candidate(entrypoints.ACTIONS, "heavy", "heavy-dist 2.0", explode)])
    assert registry.names(entrypoints.ACTIONS) == ("heavy",)
    with pytest.raises(PluginError, match=r'action "heavy" \(heavy-dist 2.0\) cannot be imported: ImportError'):
        registry.factories(entrypoints.ACTIONS)


def test_a_factory_that_calls_itself_otherwise_is_refused() -> None:
    with pytest.raises(PluginError, match='calls itself "good"; register it under that name'):
        Registry([candidate("better", Good)]).get(entrypoints.LIFECYCLE_POLICIES, "better")


class Nameless:
    async def decide(self, context: Any) -> Any: ...


class Sync:
    name = "sync"

    def decide(self, context: Any) -> Any: ...


class WrongArity:
    name = "arity"

    async def decide(self) -> Any: ...


class Empty:
    name = "empty"


@pytest.mark.parametrize(
    ("group", "factory", "problem"),
    [
        (entrypoints.LIFECYCLE_POLICIES, Nameless, "has no name"),
        (entrypoints.LIFECYCLE_POLICIES, Sync, "is not async"),
        (entrypoints.LIFECYCLE_POLICIES, WrongArity, "does not take (self, context)"),
        (entrypoints.LIFECYCLE_POLICIES, Empty, "has no method decide(self, context)"),
        (entrypoints.SCHEDULER_PLUGINS, Empty, "implements no extension point"),
        (entrypoints.ACTIONS, Empty, "has no method run(self, session)"),
        (entrypoints.JOB_PLUGINS, Empty, "derive it from volcanoio.framework.jobs.JobPlugin"),
        (entrypoints.JOB_PLUGINS, "banner", "is a str"),
    ],
)
def test_a_nonconforming_class_is_reported_with_the_missing_parts(group: str, factory: Any, problem: str) -> None:
    assert any(problem in found for found in problems(group, factory))


def test_a_conforming_class_has_no_problems() -> None:
    maker: Callable[..., Any] = lambda given: Good(dict(given))  # noqa: E731 - a function as a factory
    assert problems(entrypoints.LIFECYCLE_POLICIES, Good) == problems(entrypoints.ACTIONS, maker) == []


def test_all_installed_classes_conform() -> None:
    registry = discover()
    for group in (
        entrypoints.SCHEDULER_PLUGINS,
        entrypoints.ACTIONS,
        entrypoints.JOB_PLUGINS,
        entrypoints.LIFECYCLE_POLICIES,
    ):
        assert set(registry.factories(group)) == set(registry.names(group))


def test_a_distribution_is_read_once_however_many_plugins_it_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata is parsed as a mail is: that took longer than anything else at the start of a cluster."""
    read: list[PathDistribution] = []
    metadata: Callable[[PathDistribution], Any] = vars(Distribution)["metadata"].fget

    def noted(distribution: PathDistribution) -> Any:
        read.append(distribution)
        return metadata(distribution)

    monkeypatch.setattr(PathDistribution, "metadata", property(noted))
    assert len(discover().names(entrypoints.SCHEDULER_PLUGINS)) > 20
    assert len(read) == len(set(map(id, read)))


def test_a_mounted_policy_is_not_run_before_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "bad.py", f"{POLICY.format(cls='Bad', name='bad')}\n1 / 0\n")
    registry = discover(policies_dirs=[tmp_path])
    assert "bad" in registry.names(entrypoints.LIFECYCLE_POLICIES)
    with pytest.raises(PluginError, match=r'^lifecycle policy "bad": .*bad.py: cannot be loaded: ZeroDivision'):
        registry.get(entrypoints.LIFECYCLE_POLICIES, "bad")


def test_a_named_class_that_is_no_policy_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "odd.py", POLICY.format(cls="Fine", name="good") + 'class Odd:\n    name = "odd"\n')
    registry = discover(policies_dirs=[tmp_path])
    assert registry.get(entrypoints.LIFECYCLE_POLICIES, "good").name == "good"
    with pytest.raises(PluginError, match=r"has no method decide\(self, context\)"):
        registry.get(entrypoints.LIFECYCLE_POLICIES, "odd")


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("async def decide(self, context): ...", "a constructor that does not take its arguments; write def __init__"),
        (
            "def __init__(self, arguments): ...\n    def decide(self, context): ...",
            "that is not async; write async def",
        ),
    ],
)
def test_an_unusable_mounted_policy_is_reported(tmp_path: Path, body: str, missing: str) -> None:
    write(tmp_path, "odd.py", f'class Odd:\n    name = "odd"\n    {body}\n')
    with pytest.raises(PluginError, match=missing):
        discover(policies_dirs=[tmp_path]).get(entrypoints.LIFECYCLE_POLICIES, "odd")


def test_a_file_of_one_group_is_reported_with_the_missing_parts(tmp_path: Path) -> None:
    write(tmp_path, "mine.py", 'class Mine:\n    name = "mine-controller"\n')
    with pytest.raises(
        MountError, match=r"mine.py: holds no class that is a controller; class Mine has no method start"
    ):
        discover(controllers_dirs=[tmp_path])
