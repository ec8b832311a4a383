"""Somebody else's controller, mounted as a file, runs beside ours and replays from a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from volcanoio.compose.journals.replay import replay_controllers
from volcanoio.model import kinds
from volcanoio.model.custom import custom_kind
from volcanoio.runtime.loading.registry import discover
from volcanoio.testing import DEFINITION, cluster, until

WIDGET = custom_kind("example.com", "v1", "Widget")
CONTROLLER = '''\
from volcanoio.framework.operators import Operator, patch_status
from volcanoio.model import kinds
from volcanoio.model.custom import custom_kind


class Widgets(Operator):
    """A ConfigMap with the widget's size."""

    name = "widget-controller"
    kind = custom_kind("example.com", "v1", "Widget")
    owns = (kinds.CONFIG_MAP,)

    def plan(self, parts, view):
        widget = parts.subject
        data = {"size": str(widget.spec["size"])}
        yield [
            self.apply(parts, kinds.CONFIG_MAP, {"metadata": {"name": widget.metadata.name}, "data": data}),
            patch_status(self.kind, widget, {"size": widget.spec["size"]}),
        ]
'''


def definition() -> dict[str, Any]:
    """The kind, with a status of its own."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": anything},
    }  # fmt: skip
    called = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": called, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


async def test_it_runs_and_its_decisions_replay_from_the_journal(tmp_path: Path) -> None:
    mounted, journal = tmp_path / "mounted", tmp_path / "journal"
    mounted.mkdir()
    (mounted / "widgets.py").write_text(CONTROLLER)
    async with cluster(controllers_dir=(mounted,), controllers=("*,-pg-controller",), journal=journal) as client:
        await client.create(DEFINITION, definition())
        await client.create(WIDGET, {"metadata": {"name": "w"}, "spec": {"size": 1}}, namespace="default")
        await until(client, WIDGET, "w", lambda widget: widget.status.get("size") == 1)
        await client.patch(WIDGET, "w", {"spec": {"size": 2}}, "default")
        await until(client, kinds.CONFIG_MAP, "w", lambda found: found.data == {"size": "2"})
        await client.patch(kinds.CONFIG_MAP, "w", {"data": {"size": "9"}}, "default")
        await until(client, kinds.CONFIG_MAP, "w", lambda found: found.data == {"size": "2"})
    (mounted / "widgets.py").unlink()
    assert replay_controllers(journal / "controllers", discover()).first is None
