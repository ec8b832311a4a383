"""Binding bodies for pods."""

from __future__ import annotations

from typing import Any

from volcanoio.model.base import Manifest


def binding(node: str = "n1", **meta: Any) -> Manifest:
    return {"metadata": {"name": "p", **meta}, "target": {"kind": "Node", "name": node}}
