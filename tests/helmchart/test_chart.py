"""The chart: config/deploy is what it renders, values have Volcano's names, and pods meet the restricted standard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import volcanoio
from tests.architecture.measure import ROOT
from tests.goclient.building import HELM, NotBuiltError, program
from tests.helmchart.rendering import CHART, DEPLOY, NAMESPACE, HelmError, deploy_files, helm, manifests
from volcanoio.engine.sharding.configuration import of_flags, parse
from volcanoio.framework.controller import ShardingSettings
from volcanoio.model.documents import load_all_yaml
from volcanoio.model.packaged import config_path

VOLCANOS = """
basic: {agent_image_name: a, image_pull_secret: p, image_tag_version: v1, admission_port: 8443}
custom:
  metrics_enable: false
  scheduler_pprof_enable: true
  scheduler_plugins_dir: /plugins
  controller_kube_api_qps: 50
  controller_worker_threads: 3
  controller_worker_threads_for_gc: 5
  scheduler_node_worker_threads: 20
  scheduler_percentage_nodes_to_find: 0
  colocation_enable: false
  agent_tolerations: []
  agent_cni_config_path: /etc
  kube_state_metrics_ns: ~
  admission_init_csc: ~
  default_sc: {runAsUser: 3000}
  default_csc: {runAsNonRoot: true}
  webhooks_namespace_selector_expressions: ~
  scheduler_config_override: "actions: allocate"
  scheduler_feature_gates: ~
service: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv4]}
"""
"""A file of values as users of Volcano's chart have it."""


@pytest.fixture(autouse=True)
def _built() -> None:
    try:
        program(HELM)
    except NotBuiltError as error:
        pytest.skip(f"HELM WAS NOT TESTED: {error}")


def of(kind: str, found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in found if one["kind"] == kind}


def test_config_deploy_is_the_rendered_chart() -> None:
    for name, text in deploy_files().items():
        assert (DEPLOY / name).read_text() == text, f"config/deploy/{name} is out of step; run `make deploy`"


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_volcanos_values_are_accepted_and_those_without_effect_are_named(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(VOLCANOS)
    flags = ("--namespace", NAMESPACE, "--dry-run=client", "--values", str(tmp_path / "values.yaml"))
    notes = helm("install", "volcano", str(CHART), *flags).partition("NOTES:")[2]
    (ignored,) = (line for line in notes.splitlines() if line.startswith("Values without effect here: "))
    assert "basic.agent_image_name" in ignored
    assert "custom.controller_worker_threads_for_gc" in ignored
    assert "custom.scheduler_pprof_enable" not in ignored


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("custom.sheduler_replicas=3", "'sheduler_replicas' not allowed"),
        ("custom.scheduler_replicas=many", "'/custom/scheduler_replicas': got string, want integer"),
        ("custom.enabled_admissions=/jobs/mutat", "'/custom/enabled_admissions'"),
        ("basic.image_pull_policy=Sometimes", "'/basic/image_pull_policy'"),
        ("custom.scheduler_extra_volume_mounts[0].name=x", "'/custom/scheduler_extra_volume_mounts/0'.*'mountPath'"),
        ("custom.scheduler_policies_dir=/x", "'scheduler_policies_dir' not allowed"),
        ("custom.scheduler_sharding_mode=strict", "'/custom/scheduler_sharding_mode'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(value: str, said: str) -> None:
    with pytest.raises(HelmError, match=said):
        manifests(value)


def test_the_notes_use_the_patterns_of_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    patterns = [pattern for group in ("basic", "custom") for pattern in schema[group]["patternProperties"]]
    helpers = (CHART / "templates" / "_helpers.tpl").read_text().splitlines()
    assert len(patterns) == 2
    assert set(patterns) <= set(helpers)


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (volcanoio.__version__, volcanoio.__version__)


def test_two_releases_share_no_object() -> None:
    def names(release: str, namespace: str) -> set[tuple[str, str, str]]:
        found = manifests("userRoles.vcjob=false", release=release, namespace=namespace)
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found}

    assert not names("volcano", NAMESPACE) & names("second", "second-system")


def test_every_image_flag_and_name_follows_the_release() -> None:
    found = manifests("basic.image_registry=r.example", "basic.image_tag_version=v2", release="b", namespace="n")
    for deployment in of("Deployment", found).values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "r.example/volcanoio/volcanoio:v2"
        assert NAMESPACE not in " ".join(container["args"])
    assert "--webhook-service-name=b-admission-service" in str(of("Deployment", found)["b-admission"])
    assert of("Role", found)["b-scheduler"]["rules"][-1]["resourceNames"] == ["b-scheduler-configmap"]


SHARDED = (
    "custom.scheduler_sharding_mode=soft", "custom.sharding_controller_enable=true",
    "custom.agent_scheduler_enable=true", r"custom.scheduler_name=sched-a\,sched-b",
)  # fmt: skip
SHARDS = """
custom:
  sharding_configmap_data:
    schedulerConfigs:
    - {name: sched-a, policies: [{name: node-limit, arguments: {maxNodes: 3}}]}
"""


def arguments(deployment: dict[str, Any]) -> list[str]:
    """Return the arguments of a Deployment's container."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def test_shards_are_switched_on_together() -> None:
    """Scheduler, controller, its ConfigMap with the flags' defaults, and the right to watch it."""
    found = manifests(*SHARDED, release="b", namespace="n")
    deployments = of("Deployment", found)
    assert {
        "--scheduler-sharding-mode=soft", "--scheduler-sharding-name=sched-a", "--agent-scheduler-name=agent-scheduler",
    } <= set(arguments(deployments["b-scheduler"]))  # fmt: skip
    assert {"--controllers=*", "--sharding-configmap=b-sharding-configmap", "--sharding-configmap-namespace=n"} <= set(
        arguments(deployments["b-controllers"])
    )
    text = of("ConfigMap", found)["b-sharding-configmap"]["data"]["sharding.yaml"]
    assert parse(text, ShardingSettings()) == of_flags(ShardingSettings())
    named = [rule.get("resourceNames") for rule in of("ClusterRole", found)["b-controllers"]["rules"]]
    assert ["b-sharding-configmap"] in named


def test_shards_are_off_by_default() -> None:
    assert "shard" not in str([arguments(each) for each in of("Deployment", manifests()).values()])
    assert "volcano-sharding-configmap" not in of("ConfigMap", manifests())


def test_the_schedulers_that_divide_the_nodes_are_a_value(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(SHARDS)
    found = manifests(*SHARDED, more=("--values", str(tmp_path / "values.yaml")))
    (shard,) = parse(
        of("ConfigMap", found)["volcano-sharding-configmap"]["data"]["sharding.yaml"], ShardingSettings()
    ).schedulers
    assert shard.name == "sched-a"
    named = manifests(*SHARDED, "custom.scheduler_sharding_name=pool", "custom.sharding_configmap_enable=false")
    assert "--scheduler-sharding-name=pool" in arguments(of("Deployment", named)["volcano-scheduler"])
    assert "volcano-sharding-configmap" not in of("ConfigMap", named)


def test_the_notes_name_a_node_shard_that_no_controller_writes() -> None:
    flags = ("--set", "custom.scheduler_sharding_mode=hard", "--set", "custom.agent_scheduler_enable=true")
    notes = helm("install", "volcano", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", *flags)
    assert "uses the nodes of NodeShard volcano: create it, or set custom.sharding_controller_enable" in notes
    assert "without effect" not in notes


MOUNTED = """
custom:
  {key}_extra_volumes: [{{name: code, configMap: {{name: code}}}}]
  {key}_extra_volume_mounts: [{{name: code, mountPath: /code, readOnly: true}}]
"""
"""Values that mount a ConfigMap in the pods of a component."""


@pytest.mark.parametrize(
    ("deployment", "key", "kinds"),
    [
        ("volcano-scheduler", "scheduler", ("plugins",)),
        ("volcano-controllers", "controller", ("plugins", "policies", "controllers")),
        ("volcano-admission", "admission", ("plugins",)),
    ],
)
def test_directories_of_code_are_mounted_and_named_by_flags(
    tmp_path: Path, deployment: str, key: str, kinds: tuple[str, ...]
) -> None:
    (tmp_path / "values.yaml").write_text(MOUNTED.format(key=key))
    more = ("--values", str(tmp_path / "values.yaml"))
    found = manifests(*(f"custom.{key}_{kind}_dir=/code/{kind}" for kind in kinds), more=more)
    pods = {name: one["spec"]["template"]["spec"] for name, one in of("Deployment", found).items()}
    changed = pods.pop(deployment)
    (container,) = changed["containers"]
    assert {"name": "code", "configMap": {"name": "code"}} in changed["volumes"]
    assert {"name": "code", "mountPath": "/code", "readOnly": True} in container["volumeMounts"]
    flags = [flag for flag in container["args"] if "-dir=" in flag]
    assert flags == [f"--{kind}-dir=/code/{kind}" for kind in kinds]
    assert "code" not in str([pod["volumes"] for pod in pods.values()])


@pytest.mark.parametrize("mounted", [True, False])
def test_a_directory_that_nothing_is_mounted_for_is_named_in_the_notes(tmp_path: Path, mounted: bool) -> None:
    (tmp_path / "values.yaml").write_text(MOUNTED.format(key="controller") if mounted else "")
    flags = ("--values", str(tmp_path / "values.yaml"), "--set", "custom.controller_policies_dir=/code")
    notes = helm("install", "volcano", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", *flags)
    note = "policies_dir is /code: the image must contain it, as custom.controller_extra_volume_mounts is empty."
    assert (f"custom.controller_{note}" in notes) is not mounted


def test_the_example_of_the_page_mounts_policies(tmp_path: Path) -> None:
    page = (ROOT / "docs/chart-values.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "values.yaml").write_text(example)
    pod = of("Deployment", manifests(more=("--values", str(tmp_path / "values.yaml"))))["volcano-controllers"]
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    (directory,) = (flag.removeprefix("--policies-dir=") for flag in container["args"] if "policies-dir" in flag)
    assert directory in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_each_part_can_be_switched_off() -> None:
    off = [f"custom.{part}_enable=false" for part in ("scheduler", "controller", "admission")]
    left = manifests(*off, "userRoles.vcjob=false", "userRoles.aggregate=false")
    assert left == []


def test_one_replica_has_no_budget_and_no_election_no_lease() -> None:
    found = manifests("custom.scheduler_replicas=1", "custom.leader_elect_enable=false")
    assert "volcano-scheduler" not in of("PodDisruptionBudget", found)
    assert of("Lease", found) == {}
    (container,) = of("Deployment", found)["volcano-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert "--leader-elect=false" in container["args"]


def test_each_pod_can_be_reported_with_its_queue() -> None:
    def flags(*values: str) -> list[str]:
        (container,) = of("Deployment", manifests(*values))["volcano-scheduler"]["spec"]["template"]["spec"][
            "containers"
        ]
        return [flag for flag in container["args"] if flag.startswith("--metrics-")]

    assert flags() == []
    wanted = ("custom.scheduler_metrics_per_pod=true", "custom.scheduler_metrics_series_limit=100000")
    assert flags(*wanted) == ["--metrics-per-pod=true", "--metrics-series-limit=100000"]


def test_pods_meet_the_restricted_standard_and_spread_over_nodes() -> None:
    for deployment in of("Deployment", manifests()).values():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        own = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {probe for probe in container if probe.endswith("Probe")} == {
            "startupProbe",
            "livenessProbe",
            "readinessProbe",
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert deployment["spec"]["replicas"] == 2
        assert pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_network_policies_open_the_ports_of_the_components() -> None:
    found = of("NetworkPolicy", manifests("networkPolicy.enabled=true"))
    ports = {name: [port["port"] for port in one["spec"]["ingress"][0]["ports"]] for name, one in found.items()}
    assert ports == {
        "volcano-scheduler": [8080, 11251],
        "volcano-controllers": [8081, 11251],
        "volcano-admission": [8443, 11251],
    }


def test_the_web_page_has_no_rights_and_no_token() -> None:
    assert not any("web" in one["metadata"]["name"] for one in manifests() if one["kind"] != "Secret")
    found = manifests("web.enabled=true", "web.allowedHosts={volcano.example.com}", "web.tlsSecret=page")
    bound = [subject["name"] for one in found for subject in one.get("subjects") or ()]
    assert "volcano-web" in of("ServiceAccount", found)
    assert "volcano-web" not in bound
    pod = of("Deployment", found)["volcano-web"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert {"--auth=token", "--allowed-host=volcano.example.com"} <= set(container["args"])
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    (port,) = of("Service", found)["volcano-web"]["spec"]["ports"]
    assert port == {"name": "web", "port": 443, "targetPort": "web"}
    kubeconfig = yaml.safe_load(of("ConfigMap", found)["volcano-web"]["data"]["kubeconfig"])
    assert "users" not in kubeconfig
    assert "volcano-web" in of("NetworkPolicy", manifests("web.enabled=true", "networkPolicy.enabled=true"))


def test_monitoring_selects_the_services_of_the_release() -> None:
    found = manifests("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafanaDashboards.enabled=true")
    services = of("Service", found).values()
    for monitor in of("ServiceMonitor", found).values():
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = (one for one in services if selector <= one["metadata"]["labels"].items())
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
    rules = yaml.safe_load(config_path("prometheus", "rules.yaml").read_text())
    assert of("PrometheusRule", found)["volcano"]["spec"] == rules["spec"]
    boards = {name: one["data"] for name, one in of("ConfigMap", found).items() if "grafana" in name}
    for name in ("cluster", "jobs"):
        board = json.loads(config_path("grafana", f"{name}.json").read_text())
        assert json.loads(boards[f"volcano-grafana-{name}"][f"{name}.json"]) == board


ALL_POLICIES = (
    "custom.vap_enable=true",
    "custom.map_enable=true",
    "custom.queue_rights_vap_enable=true",
    "custom.scheduler_feature_gates=SchedulingGatesQueueAdmission=true",
)


def test_policies_of_the_api_server_are_bound_under_the_names_of_the_release() -> None:
    found = manifests(*ALL_POLICIES, release="b")
    files = config_path("admission").glob("*.yaml")
    written = {(one["kind"], one["metadata"]["name"]) for path in files for one in load_all_yaml(path.read_text())}
    rendered = {(one["kind"], one["metadata"]["name"]) for one in found if "AdmissionPolicy" in one["kind"]}
    assert rendered == {(kind, name.replace("volcano-", "b-")) for kind, name in written}
    for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        policies, bindings = of(kind, found), of(f"{kind}Binding", found)
        assert policies
        assert all(name.startswith("b-") for name in policies)
        assert {one["spec"]["policyName"] for one in bindings.values()} == policies.keys()


def test_policies_are_about_the_controllers_and_schedulers_of_the_release() -> None:
    names = ("custom.scheduler_name=a", "custom.further_scheduler_names={c,d}")
    text = json.dumps(manifests(*ALL_POLICIES, *names, release="b", namespace="n"))
    assert text.count("request.userInfo.username != 'system:serviceaccount:n:b-controllers'") == 2
    assert text.count("object.spec.?schedulerName.orValue('') in ['a', 'c', 'd']") == 3
    assert "path: '/spec/schedulerName', value: 'a'" in text
    assert "volcano-system" not in text
    assert "['volcano']" not in text


def test_the_gate_is_added_only_if_the_scheduler_removes_it() -> None:
    found = manifests("custom.vap_enable=true", "custom.map_enable=true")
    assert "volcano-pods" not in of("MutatingAdmissionPolicy", found)
    assert "volcano-queue-rights" not in of("ValidatingAdmissionPolicy", found)


def test_the_schedulers_of_other_releases_share_controllers_and_admission() -> None:
    """Each scheduler has its own names; those that the admission does not know would not be checked."""
    found = of("Deployment", manifests("custom.scheduler_name=a\\,b", "custom.further_scheduler_names={c}"))
    named = {
        name: [arg for arg in one["spec"]["template"]["spec"]["containers"][0]["args"] if "scheduler-name" in arg]
        for name, one in found.items()
    }
    assert named == {
        "volcano-scheduler": ["--scheduler-name=a,b"],
        "volcano-controllers": ["--scheduler-name=a,b,c"],
        "volcano-admission": ["--scheduler-name=a,b,c"],
    }


def test_the_admission_has_the_feature_gates_of_the_scheduler() -> None:
    """It adds the gate of queue admission, which the scheduler removes."""
    found = of("Deployment", manifests(ALL_POLICIES[-1]))
    for name in ("volcano-scheduler", "volcano-admission"):
        arguments = found[name]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert "--feature-gates=SchedulingGatesQueueAdmission=true" in arguments


def test_kustomize_takes_every_file() -> None:
    listed = yaml.safe_load((config_path("kustomization.yaml")).read_text())["resources"]
    root = config_path("deploy").parent
    there = [*sorted(root.glob("crds/*.yaml")), *sorted(root.glob("deploy/*.yaml"))]
    assert listed == [path.relative_to(root).as_posix() for path in there]


def test_a_history_has_a_claim_that_both_replicas_mount() -> None:
    found = manifests("history.enabled=true", "history.rows=5000000", "history.storageClass=nfs")
    claim = of("PersistentVolumeClaim", found)["volcano-history"]["spec"]
    assert (claim["accessModes"], claim["storageClassName"]) == (["ReadWriteMany"], "nfs")
    pods = of("Deployment", found)["volcano-controllers"]["spec"]["template"]["spec"]
    assert "--history-file=/volcano.history/history.sqlite" in pods["containers"][0]["args"]
    assert "--history-rows=5000000" in pods["containers"][0]["args"]
    assert {"name": "history", "persistentVolumeClaim": {"claimName": "volcano-history"}} in pods["volumes"]
    own = manifests("history.enabled=true", "history.existingClaim=mine")
    assert not of("PersistentVolumeClaim", own)
