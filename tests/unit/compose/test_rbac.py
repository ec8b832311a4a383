"""The roles of the components follow from what they declare, and their files are in step."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from volcanoio.cli.main import volcanoio
from volcanoio.compose.controllers import installed_controllers
from volcanoio.compose.rbac import COMPONENTS, merge_rules, render, scheduler_rights
from volcanoio.framework.controller import Rule
from volcanoio.model import kinds
from volcanoio.model.packaged import config_path
from volcanoio.runtime.controllers.setup import kinds_of
from volcanoio.runtime.loading.registry import discover

OPERATOR = """
from volcanoio.framework.operators import Operator
from volcanoio.model import kinds
from volcanoio.model.custom import custom_kind

class Mine(Operator):
    name = "mine-controller"
    kind = custom_kind("example.com", "v1", "Mine")
    owns = (kinds.CONFIG_MAP,)
    looks_up = (kinds.NODE,)

    def plan(self, parts, view):
        return ()
"""


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_file_contains_the_declared_rights(component: str) -> None:
    reported = f"config/rbac/{component}.yaml is out of step with what is declared; run `make rbac`"
    assert (config_path("rbac") / f"{component}.yaml").read_text() == render(component, discover()), reported


@pytest.mark.parametrize("component", COMPONENTS)
def test_secrets_and_leases_are_granted_by_name_or_in_the_own_namespace(component: str) -> None:
    rights = COMPONENTS[component](discover())
    everywhere = {resource for rule in rights.cluster for resource in rule.resources}
    assert "leases" not in everywhere
    assert ("secrets" in everywhere) is (component == "controllers"), "the ssh plugin's keys are in Jobs' namespaces"
    for rule in rights.own:
        listed = (("leases",), ("list",))  # schedulers look for others in their own namespace
        assert rule.names or rule.verbs == ("create",) or (rule.resources, rule.verbs) == listed, rule


def test_the_scheduler_may_watch_what_any_plugin_reads() -> None:
    granted = {resource for rule in scheduler_rights(discover()).cluster for resource in rule.resources}
    assert {"persistentvolumes", "csinodes", "poddisruptionbudgets", "resourcequotas", "namespaces"} <= granted


def test_controllers_have_the_rights_for_their_inputs() -> None:
    for controller in installed_controllers(discover()):
        granted = {
            (rule.group, name, verb) for rule in controller.rules for name in rule.resources for verb in rule.verbs
        }
        for kind in set(kinds_of(controller)).difference(kinds.LOCAL):
            missing = {(kind.group, kind.plural, verb) for verb in ("list", "watch")} - granted
            assert not missing, (controller.name, missing)


def test_rules_are_merged_by_resource_and_then_by_verbs() -> None:
    rules = (
        Rule("", ("pods",), ("watch", "get")),
        Rule("", ("pods", "services"), ("delete",)),
        Rule("", ("services",), ("get", "watch")),
        Rule("apps", ("pods",), ("get",)),
    )
    assert merge_rules(rules) == (
        Rule("", ("pods", "services"), ("get", "watch", "delete")),
        Rule("apps", ("pods",), ("get",)),
    )


def test_the_command_takes_mounted_controllers_in(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OPERATOR)
    said = CliRunner().invoke(volcanoio, ["config", "rbac", "--controllers-dir", str(tmp_path)], standalone_mode=False)
    assert said.exit_code == 0, said.output
    rules = next(yaml.safe_load_all(said.output))["rules"]
    assert {"apiGroups": ["example.com"], "resources": ["mines/status"], "verbs": ["patch"]} in rules
    (nodes,) = (rule for rule in rules if "nodes" in rule["resources"])
    assert nodes["verbs"] == ["get", "list", "watch"]
