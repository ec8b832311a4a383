"""env, svc and ssh: files, names and variables that programs in pods rely on."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from volcanoio_plugins.job.env import EnvPlugin
from volcanoio_plugins.job.ssh import SshPlugin
from volcanoio_plugins.job.svc import SvcPlugin

from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.jobs import JobPlugin, PluginArgumentError
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job


def job(**worker: Any) -> Job:
    tasks = [
        {"name": "ps", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
        {"name": "my-worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "c"}], **worker}}},
    ]
    return msgspec.convert({"metadata": {"name": "tf", "namespace": "ns", "uid": "u"}, "spec": {"tasks": tasks}}, Job)


def pod(name: str = "tf-ps-0") -> Manifest:
    spec = {"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}], "initContainers": [{"name": "i"}]}
    return {"metadata": {"name": name}, "spec": spec}


def changed(plugin: JobPlugin, **worker: Any) -> Manifest:
    built = pod()
    one = job(**worker)
    plugin.on_pod_create(built, one, one.spec.tasks[0], 0)
    return built


def test_env_adds_the_index_to_every_container() -> None:
    built = changed(EnvPlugin([]))
    index = [{"name": "VK_TASK_INDEX", "value": "0"}, {"name": "VC_TASK_INDEX", "value": "0"}]
    assert built["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}, *index]
    assert built["spec"]["initContainers"][0]["env"] == index


def test_svc_lists_hosts_without_a_newline_at_the_end() -> None:
    data = SvcPlugin([]).owned_objects(job())[0].manifest["data"]
    assert data == {
        "ps.host": "tf-ps-0.tf",
        "VC_PS_HOSTS": "tf-ps-0.tf",
        "VC_PS_NUM": "1",
        "my_worker.host": "tf-my-worker-0.tf\ntf-my-worker-1.tf",
        "VC_MY_WORKER_HOSTS": "tf-my-worker-0.tf,tf-my-worker-1.tf",
        "VC_MY_WORKER_NUM": "2",
    }


def test_svc_emits_one_host_for_a_template_with_a_hostname() -> None:
    data = SvcPlugin([]).owned_objects(job(hostname="fixed", subdomain="dom"))[0].manifest["data"]
    assert (data["my_worker.host"], data["VC_MY_WORKER_NUM"]) == ("fixed.dom", "1")


def test_svc_objects() -> None:
    config_map, service, policy = SvcPlugin(["--publish-not-ready-addresses=true"]).owned_objects(job())
    selector = {"volcano.sh/job-name": "tf", "volcano.sh/job-namespace": "ns"}
    assert config_map.manifest["metadata"]["name"] == "tf-svc"
    assert config_map.update
    assert service.manifest["metadata"]["name"] == "tf"
    assert service.manifest["spec"] == {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    assert policy.manifest["spec"] == {
        "podSelector": {"matchLabels": selector},
        "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
        "policyTypes": ["Ingress"],
    }
    assert len(SvcPlugin(["--disable-network-policy"]).owned_objects(job())) == 2


def test_svc_emits_no_host_for_a_task_without_pods() -> None:
    one = job(hostname="fixed")
    none = msgspec.structs.replace(one.spec.tasks[1], replicas=0)
    empty = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, tasks=(none,)))
    data = SvcPlugin([]).owned_objects(empty)[0].manifest["data"]
    assert data == {"my_worker.host": "", "VC_MY_WORKER_HOSTS": "", "VC_MY_WORKER_NUM": "0"}


@pytest.mark.parametrize(
    ("arguments", "kinds_made"),
    [
        (["--disable-network-policy=false"], 3),
        (["-disable-network-policy"], 2),
        (["--disable-network-policy=T", "--publish-not-ready-addresses=0"], 2),
        (["--disable-network-policy=true", "--disable-network-policy=false"], 3),
    ],
)
def test_flags_have_the_forms_of_go(arguments: list[str], kinds_made: int) -> None:
    wanted = SvcPlugin(arguments).owned_objects(job())
    assert len(wanted) == kinds_made
    assert "publishNotReadyAddresses" not in wanted[1].manifest["spec"]


def test_svc_leaves_a_pods_own_names() -> None:
    built = pod()
    built["spec"] |= {"hostname": "h", "subdomain": "s"}
    one = job()
    SvcPlugin([]).on_pod_create(built, one, one.spec.tasks[0], 0)
    assert (built["spec"]["hostname"], built["spec"]["subdomain"]) == ("h", "s")


def test_svc_names_the_pod_mounts_the_files_and_sets_variables() -> None:
    spec = changed(SvcPlugin([]))["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("tf-ps-0", "tf")
    assert spec["volumes"] == [{"name": "tf-svc", "configMap": {"name": "tf-svc"}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [{"name": "tf-svc", "mountPath": "/etc/volcano"}]
        names = [variable["name"] for variable in container["env"] if variable["name"] != "A"]
        assert names == ["VC_PS_HOSTS", "VC_PS_NUM", "VC_MY_WORKER_HOSTS", "VC_MY_WORKER_NUM"]
    quiet = changed(SvcPlugin(["--inject-hosts-env=false"]))["spec"]
    assert "env" not in quiet["initContainers"][0]


def test_ssh_secret_gets_its_keys_at_the_edge() -> None:
    (secret,) = SshPlugin(["--ssh-port=2222"]).owned_objects(job())
    assert secret.fill == "ssh-keypair"
    assert secret.manifest["metadata"]["name"] == "tf-ssh"
    assert set(secret.manifest["data"]) == {"config"}
    config = base64.b64decode(secret.manifest["data"]["config"]).decode().splitlines()
    assert config[:2] == ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    assert config[2:5] == ["Host tf-ps-0", "  HostName tf-ps-0.tf", "  Port 2222"]
    assert len(config) == 2 + 3 * 3


def test_ssh_keeps_given_keys() -> None:
    (secret,) = SshPlugin(["--ssh-private-key=PRIV", "--ssh-public-key=PUB"]).owned_objects(job())
    assert secret.fill == ""
    decoded = {key: base64.b64decode(value).decode() for key, value in secret.manifest["data"].items()}
    assert (decoded["id_rsa"], decoded["id_rsa.pub"], decoded["authorized_keys"]) == ("PRIV", "PUB", "PUB")


@pytest.mark.parametrize(("path", "mode"), [("/root/.ssh", 0o600), ("/home/me/.ssh", 0o644)])
def test_ssh_mounts_the_secret(path: str, mode: int) -> None:
    spec = changed(SshPlugin([f"--ssh-key-file-path={path}"]))["spec"]
    secret = spec["volumes"][0]["secret"]
    assert (secret["secretName"], secret["defaultMode"]) == ("tf-ssh", mode)
    assert {"key": "id_rsa", "path": ".ssh/id_rsa"} in secret["items"]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [{"name": "tf-ssh", "mountPath": path, "subPath": ".ssh"}]


@pytest.mark.parametrize(
    ("plugin", "arguments", "text"),
    [
        (EnvPlugin, ["--x=1"], 'unknown flag "--x"'),
        (EnvPlugin, ["x"], '"x" is not a flag'),
        (EnvPlugin, ["---x"], '"---x" is not a flag'),
        (SvcPlugin, ["--disable-network-polic"], 'did you mean "disable-network-policy"'),
        (SvcPlugin, ["--disable-network-policy=maybe"], "takes true or false"),
        (SvcPlugin, ["--disable-network-policy", "true"], '"true" is not a flag'),
        (SshPlugin, ["--ssh-port"], "needs a value"),
        (SshPlugin, ["--ssh-port=--5"], "whole number"),
        (SshPlugin, ["--ssh-port=65536"], "1..65535"),
        (SshPlugin, ["--ssh-port=0"], "1..65535"),
        (SshPlugin, ["--ssh-private-key=k"], "go together"),
        (SshPlugin, ["--ssh-key-file-path=here"], "absolute"),
    ],
)
def test_bad_arguments_are_named(plugin: Any, arguments: list[str], text: str) -> None:
    with pytest.raises((ArgumentError, PluginArgumentError)) as caught:
        plugin(arguments)
    assert text in str(caught.value)
