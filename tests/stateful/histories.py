"""What must hold at every stored version of every Job, and whenever a pod is made, whatever happens to whom.

Written down from the lifecycle's description, not from the code that is to keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest

STOPS = {"Aborting", "Completing", "Terminating"}
FOLLOWS: dict[str, set[str]] = {
    "": {"Pending", "Restarting", *STOPS},
    "Pending": {"Running", "Restarting", *STOPS},
    "Running": {"Pending", "Completed", "Failed", "Restarting", *STOPS},
    "Restarting": {"Pending", "Failed", *STOPS},
    "Aborting": {"Aborted", "Restarting"},
    "Aborted": {"Restarting"},
    "Completing": {"Completed"},
    "Terminating": {"Terminated"},
    "Completed": set(),
    "Failed": set(),
    "Terminated": set(),
}
MAKING = {"", "Pending", "Running"}
"""Phases in which pods are made."""


@dataclass
class Life:
    """One Job so far. `commands` are the Commands it accepted, in order."""

    phase: str = ""
    version: int = 0
    retries: int = 0
    command: str = ""
    commands: list[str] = field(default_factory=list)


class Histories:
    """Follows a store. `faults` are what must not happen; `actions` are what Commands ask for, by uid."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lives: dict[str, Life] = {}
        self.actions: dict[str, str] = {}
        self.faults: list[str] = []
        self.looked_at = 0
        store.on(kinds.JOB.resource, self._job)
        store.on(kinds.POD.resource, self._pod)
        store.on(kinds.COMMAND.resource, self._command)

    def check(self) -> None:
        """Raises AssertionError for the first faults."""
        assert not self.faults, "\n".join(self.faults[:5])

    def _command(self, ref: Ref, event: Event) -> None:
        if event.type == "ADDED":
            command = event.new.decode()
            self.actions[command["metadata"]["uid"]] = command["action"]

    def _job(self, ref: Ref, event: Event) -> None:
        self.looked_at += 1
        job = event.new.decode()
        uid = job["metadata"]["uid"]
        if event.type == "DELETED":
            self.lives.pop(uid, None)
            return
        life = self.lives.setdefault(uid, Life())
        status = job.get("status") or {}
        phase = (status.get("state") or {}).get("phase", "")
        version, retries = status.get("version", 0), status.get("retryCount", 0)
        command = (status.get("controlledResources") or {}).get(names.ACCEPTED_COMMAND, "")
        reported = f"job {ref.name} at {job['metadata']['resourceVersion']}"
        if command != life.command:
            if command in life.commands:
                self.faults.append(f"{reported}: Command {self.actions.get(command)} is carried out again")
            life.commands.append(command)
        resumed = command != life.command and self.actions.get(command) == "ResumeJob"
        if phase != life.phase:
            if phase not in FOLLOWS[life.phase]:
                self.faults.append(f"{reported}: {life.phase or 'new'} becomes {phase}")
            if life.phase in ("Aborting", "Aborted") and phase == "Restarting" and not resumed:
                self.faults.append(f"{reported}: {life.phase} becomes {phase}, without a resume")
        if version < life.version or retries < life.retries:
            self.faults.append(f"{reported}: counts back to version {version}, retry {retries}")
        if retries > max(_limit(job), life.retries):
            self.faults.append(f"{reported}: retry {retries} of {_limit(job)}")
        if resumed and retries != life.retries:
            self.faults.append(f"{reported}: a resume costs a retry")
        life.phase, life.version, life.retries, life.command = phase, version, retries, command

    def _pod(self, ref: Ref, event: Event) -> None:
        if event.type != "ADDED":
            return
        self.looked_at += 1
        meta = event.new.decode()["metadata"]
        owner = next((each for each in meta.get("ownerReferences", ()) if each.get("controller")), None)
        if owner is None or owner["kind"] != kinds.JOB.kind:
            self.faults.append(f"pod {ref.name} has no Job for an owner")
            return
        job = self._owner(owner["uid"])
        if job is None:
            return  # it went while the pod was under way; it is collected
        status = job.get("status") or {}
        phase = (status.get("state") or {}).get("phase", "")
        reported = f"pod {ref.name} is made"
        if phase not in MAKING:
            self.faults.append(f"{reported} while its job is {phase}")
        if meta["annotations"][names.JOB_VERSION] != str(status.get("version", 0)):
            self.faults.append(f"{reported} for version {meta['annotations'][names.JOB_VERSION]} of a later job")

    def _owner(self, uid: str) -> Any:
        ref = self._store.by_uid(uid)
        stored = self._store.get(ref) if ref is not None else None
        return stored.decode() if stored is not None else None


def _limit(job: Manifest) -> int:
    return int(job["spec"].get("maxRetry") or 3)
