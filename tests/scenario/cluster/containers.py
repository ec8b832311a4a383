"""What a container of a pod has: its variables and files, and what its command does with them."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import anyio

from tests.scenario.cluster.harness import Cluster
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind


async def read(c: Cluster, kind: Kind, name: str) -> Manifest:
    """An object of `default` as stored."""
    return await c.client.get_raw(kind, name, "default")


async def environment(c: Cluster, pod: str, of: str = "main") -> dict[str, str]:
    """The variables of a container as it would see them: those from ConfigMaps looked up, of a name the last."""
    spec = (await read(c, kinds.POD, pod))["spec"]
    found = {}
    wanted = next(each for each in (*spec["containers"], *spec.get("initContainers", ())) if each["name"] == of)
    for variable in wanted.get("env") or ():
        source = variable.get("valueFrom", {}).get("configMapKeyRef")
        if source is None:
            found[variable["name"]] = variable.get("value", "")
        else:
            found[variable["name"]] = (await read(c, kinds.CONFIG_MAP, source["name"]))["data"][source["key"]]
    return found


async def files(c: Cluster, pod: str, of: str = "main") -> dict[str, str]:
    """The files that a container has of ConfigMaps and Secrets, by path."""
    spec = (await read(c, kinds.POD, pod))["spec"]
    volumes = {each["name"]: each for each in spec.get("volumes", ())}
    wanted = next(each for each in (*spec["containers"], *spec.get("initContainers", ())) if each["name"] == of)
    found: dict[str, str] = {}
    for mount in wanted.get("volumeMounts", ()):
        held: dict[str, str] = {}
        for source in volumes[mount["name"]].get("projected", {}).get("sources") or (volumes[mount["name"]],):
            if "configMap" in source:
                held |= (await read(c, kinds.CONFIG_MAP, source["configMap"]["name"]))["data"]
            elif "secret" in source:
                data = (await read(c, kinds.SECRET, source["secret"]["secretName"]))["data"]
                items = {each["key"]: each["path"] for each in source["secret"]["items"]}
                held |= {path: base64.b64decode(data[key]).decode() for key, path in items.items()}
        inside = f"{mount['subPath']}/" if "subPath" in mount else ""
        found |= {f"{mount['mountPath']}/{name.removeprefix(inside)}": text for name, text in held.items()}
    return {path: text for path, text in found.items() if not path.startswith("/var/run/secrets")}


async def run_command(c: Cluster, pod: str, directory: Path, *, of: str = "main", stubs: dict[str, str]) -> str:
    """What the command of a container prints where it would run: with its variables, and its files in a directory.

    `stubs` are shell scripts in place of the image's programs; they print what they are called with.
    """
    spec = (await read(c, kinds.POD, pod))["spec"]
    command = next(each["command"] for each in spec["containers"] if each["name"] == of)
    for path, text in (await files(c, pod, of)).items():
        file = directory / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    programs = directory / "programs"
    programs.mkdir()
    for name, script in stubs.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    words = [word.replace("/etc/volcano", f"{directory}/etc/volcano") for word in command]
    variables = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **await environment(c, pod, of)}
    done = await anyio.run_process(words, env=variables)
    return done.stdout.decode().strip()
