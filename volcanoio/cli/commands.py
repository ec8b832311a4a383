"""Commands to controllers: how vcctl asks for suspend, resume, open and close."""

from __future__ import annotations

from volcanoio.kube.client import Client
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind
from volcanoio.model.references import owner_reference


async def send_command(client: Client, kind: Kind, target: ApiObject, action: str, namespace: str) -> None:
    """Create a Command that asks for `action` on the target; it is deleted once the intent is taken."""
    meta = target.metadata
    reference = owner_reference(kind, target)
    owners = [reference] if not kind.namespaced or namespace == meta.namespace else []
    await client.create(
        kinds.COMMAND,
        {
            "apiVersion": kinds.COMMAND.api_version,
            "kind": "Command",
            "metadata": {
                "generateName": f"{meta.name}-{action.lower()}-",
                "namespace": namespace,
                "ownerReferences": owners,
            },
            "action": action,
            "target": reference,
        },
    )
