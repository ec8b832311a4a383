"""The JobTemplate controller: which Jobs a template's status names, and how often that is written."""

from __future__ import annotations

import pytest

from tests.unit.world import World
from volcanoio.engine.flows.templates import JobTemplateController
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest


def job(name: str, template: str = "t", namespace: str = "ns", where: str = "annotations") -> Manifest:
    meta = {"name": name, "namespace": namespace, where: {names.CREATED_BY_TEMPLATE: f"ns.{template}"}}
    return {"metadata": meta}


@pytest.fixture
def world() -> World:
    return World([JobTemplateController])


def listed(world: World, name: str = "t") -> list[str]:
    return list(world.get(kinds.JOB_TEMPLATE, f"ns/{name}").status.job_depends_on_list)


@pytest.mark.parametrize("name", ["t", "t.v1.2"])
@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_jobs_made_from_a_template_are_named(world: World, name: str, where: str) -> None:
    world.put(kinds.JOB_TEMPLATE, {"metadata": {"name": name, "namespace": "ns"}})
    for each in ("b", "a"):
        world.put(kinds.JOB, job(each, name, where=where))
    world.put(kinds.JOB, job("elsewhere", name, namespace="other"))
    world.put(kinds.JOB, job("another", "u"))
    world.wait(1)
    assert listed(world, name) == ["a", "b"]
    assert world.writes == [f"patch {name}"]
    world.remove(kinds.JOB, "ns/a")
    world.remove(kinds.JOB, "ns/b")
    world.wait(1)
    assert listed(world, name) == []


def test_a_refused_write_is_retried_also_after_a_restart(world: World) -> None:
    world.refuse = [(500, "boom")]
    world.put(kinds.JOB_TEMPLATE, {"metadata": {"name": "t", "namespace": "ns"}})
    world.put(kinds.JOB, job("a"))
    world.wait(1)
    assert listed(world) == []
    world.wait(5)
    assert listed(world) == ["a"]
    world.put(kinds.JOB, job("b"))
    world.start()
    world.wait(1)
    assert listed(world) == ["a", "b"]
