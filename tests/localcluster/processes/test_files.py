"""Volumes, hosts files and mounts as files of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import examples
from volcanoio.localcluster.processes.container_spec import absolute, link_tree, rewrite, volume_mounts
from volcanoio.localcluster.processes.hosts import Host, HostsFiles, ServiceName, hosts_text
from volcanoio.localcluster.processes.launch.order import LaunchOrder, Mount
from volcanoio.localcluster.processes.launch.rootfs import opened_directories, resolve
from volcanoio.localcluster.processes.sandbox import Payload, Sandbox, VolumeFile, payload, write_payload
from volcanoio.localcluster.processes.sources import Missing, Sources

SOURCES = Sources(
    config_maps={"cm": {"a": b"1", "b": b"2"}}, secrets={"se": {"id_rsa": b"key"}}, tokens={"": "tok", "aud": "other"}
)
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {"x": "y"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
}


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        ({"configMap": {"name": "cm"}}, {"a": (b"1", 0o644), "b": (b"2", 0o644)}),
        (
            {
                "configMap": {
                    "name": "cm",
                    "defaultMode": 0o400,
                    "items": [{"key": "a", "path": "sub/a", "mode": 0o755}],
                }
            },
            {"sub/a": (b"1", 0o755)},
        ),
        (
            {"secret": {"secretName": "se", "defaultMode": 0o600, "items": [{"key": "id_rsa", "path": ".ssh/id_rsa"}]}},
            {".ssh/id_rsa": (b"key", 0o600)},
        ),
        ({"configMap": {"name": "gone", "optional": True}}, {}),
        (
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"labels": (b'x="y"', 0o644)},
        ),
        (
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "a"}]}},
                        {"secret": {"name": "se"}},
                        {"serviceAccountToken": {"path": "token", "audience": "aud"}},
                    ],
                }
            },
            {"a": (b"1", 0o440), "id_rsa": (b"key", 0o440), "token": (b"other", 0o440)},
        ),
        ({"emptyDir": {}}, None),
    ],
)
def test_contents_of_a_volume(volume: dict[str, Any], files: dict[str, Any] | None) -> None:
    assert payload(POD, volume, SOURCES) == files


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="references non-existent config key: nope"):
        payload(POD, {"configMap": {"name": "cm", "items": [{"key": "nope", "path": "x"}]}}, SOURCES)


_FILES = st.dictionaries(
    st.sampled_from(["a", "b", "dir/a", "dir/b", ".hidden/x"]),
    st.builds(VolumeFile, st.binary(max_size=5), st.sampled_from([0o644, 0o600, 0o400])),
)


@examples(50, suppress_health_check=[HealthCheck.too_slow])  # it writes files
@given(st.lists(_FILES, min_size=1, max_size=4))
def test_a_volume_shows_what_was_written_last_and_nothing_else(versions: list[Payload]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for files in versions:
            write_payload(directory, files)
            assert not write_payload(directory, files)
            shown = {
                str(file.relative_to(directory)): VolumeFile(file.read_bytes(), file.stat().st_mode & 0o7777)
                for entry in directory.iterdir()
                if not entry.name.startswith("..")
                for file in (entry.rglob("*") if entry.is_dir() else [entry])
                if file.is_file()
            }
            assert shown == files


def test_a_sub_path_is_a_directory_of_its_volume(tmp_path: Path) -> None:
    write_payload(tmp_path / "v", {".ssh/id": VolumeFile(b"x", 0o600)})
    container = {"volumeMounts": [{"name": "v", "mountPath": "/root/.ssh/", "subPath": ".ssh", "readOnly": True}]}
    (mount,) = volume_mounts(container, {"v": tmp_path / "v"}, {})
    assert mount.target == "/root/.ssh"
    assert mount.read_only
    assert (Path(mount.source) / "id").read_bytes() == b"x"


def test_a_sub_path_follows_variables_and_is_made(tmp_path: Path) -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/out", "subPathExpr": "runs/$(NAME)"}]}
    (mount,) = volume_mounts(container, {"v": tmp_path}, {"NAME": "one"})
    assert Path(mount.source) == tmp_path / "runs" / "one"
    assert Path(mount.source).is_dir()


def test_a_sub_path_cannot_lead_out(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "up").symlink_to(tmp_path)
    container = {"volumeMounts": [{"name": "v", "mountPath": "/out", "subPath": "up"}]}
    with pytest.raises(Missing, match="leads out"):
        volume_mounts(container, {"v": tmp_path / "v"}, {})


def test_volumes_of_unknown_kinds_are_refused(tmp_path: Path) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}}
    with pytest.raises(Missing, match=r'volume "v": its kind \(nfs\)'):
        Sandbox(tmp_path, "uid").prepare(pod, Sources())


def test_claims_are_directories_that_outlive_pods(tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    }
    volume = {
        "metadata": {"name": "pvc-1"},
        "spec": {"hostPath": {"path": str(tmp_path / "volumes" / "pvc-1"), "type": "DirectoryOrCreate"}},
    }
    sandbox = Sandbox(tmp_path, "uid")
    found = sandbox.prepare(pod, Sources(volumes={"data": volume}))
    (found["v"] / "kept").touch()
    sandbox.remove()
    assert (Sandbox(tmp_path, "other").prepare(pod, Sources(volumes={"data": volume}))["v"] / "kept").exists()


@pytest.mark.parametrize(("path", "clean"), [("/a/b/", "/a/b"), ("a//b", "/a/b"), ("/./a", "/a")])
def test_mount_paths_are_cleaned(path: str, clean: str) -> None:
    assert absolute(path) == clean


def test_paths_are_rewritten_as_whole_paths_only() -> None:
    text = "cat /etc/volcano/ps.host '/etc/volcano' /etc/volcano2 /x/etc/volcano --f=/data/x /data-old"
    assert rewrite(text, ["/etc/volcano", "/data"], "/root") == (
        "cat /root/etc/volcano/ps.host '/root/etc/volcano' /etc/volcano2 /x/etc/volcano --f=/root/data/x /data-old"
    )


def test_mounts_can_be_links(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "f").write_text("x")
    for _ in range(2):
        link_tree(tmp_path / "root", [Mount(str(tmp_path / "v"), "/etc/volcano")])
    assert (tmp_path / "root/etc/volcano/f").read_text() == "x"


def test_only_directories_without_the_mount_path_are_opened(tmp_path: Path) -> None:
    base = str(tmp_path.resolve())
    (tmp_path / "there").mkdir()
    above = {str(one) for one in Path(base).parents} | {base}
    assert opened_directories([f"{base}/there"]) == {"/"}
    assert opened_directories([f"{base}/new/deep"]) == above
    assert opened_directories([f"{base}/there", f"{base}/there/inside/volume"]) == {"/"}


def test_links_on_the_way_to_a_mount_path_are_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to("run")
    assert resolve(f"{tmp_path}/var/secrets/x") == f"{tmp_path.resolve()}/run/secrets/x"


def test_an_order_survives_its_way() -> None:
    order = LaunchOrder(argv=["a"], env={"B": "c"}, mounts=(Mount("/s", "/t", read_only=True),), uid=5)
    assert LaunchOrder.of(order.to_json()) == order


def _host(number: int, namespace: str = "ns", subdomain: str = "job") -> Host:
    name = f"w-{number}"
    return Host(namespace, name, f"127.1.0.{number + 2}", name, subdomain, {"app": "x"})


def _names(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        address, *names = line.split()
        for name in names:
            found.setdefault(name, set()).add(address)
    return found


def test_a_pod_knows_itself_its_peers_and_services() -> None:
    text = hosts_text(_host(0), [_host(1), _host(2, "other")], [ServiceName("ns", "job", {"app": "x"})])
    names = _names(text)
    assert names["w-0"] == {"127.1.0.2"}
    assert names["w-1.job"] == names["w-1.job.ns"] == names["w-1.job.ns.svc.cluster.local"] == {"127.1.0.3"}
    assert "w-1" not in names
    assert names["w-2.job.other"] == {"127.1.0.4"}
    assert "w-2.job" not in names
    assert names["job"] == names["job.ns.svc"] == {"127.1.0.2", "127.1.0.3"}
    assert names["localhost"] == {"127.0.0.1", "::1"}


def test_hosts_files_follow_changes_of_pods(tmp_path: Path) -> None:
    book = HostsFiles()
    files = [tmp_path / str(number) / "hosts" for number in range(2)]
    book.add("0", _host(0), files[0])
    inode = files[0].stat().st_ino
    book.add("1", _host(1), files[1])
    assert "w-1.job" in _names(files[0].read_text())
    assert "w-0.job" in _names(files[1].read_text())
    book.serve([ServiceName("ns", "job", {"app": "x"})])
    assert _names(files[0].read_text())["job"] == {"127.1.0.2", "127.1.0.3"}
    book.remove("1")
    assert "w-1.job" not in _names(files[0].read_text())
    assert files[0].stat().st_ino == inode
