"""Coverage-guided fuzzing by atheris: inputs that reach new code are kept and changed further.

`python -m tests.fuzz.guided [--seconds N] [TARGET ...]` runs each target in a process of its own and fails with the
first one that raises anything but our error types, does not end within 30 s or takes more than 2 GiB. The input is
then in a file, which `python -m tests.fuzz.guided --again FILE TARGET` repeats. Targets are readers of bytes, and the
property tests of this directory, whose inputs hypothesis builds of the bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

PROPERTIES = ("test_texts", "test_objects", "test_configurations")
_OPTIONS = ("-timeout=30", "-rss_limit_mb=2048", "-max_len=65536", "-verbosity=0")


class Target(NamedTuple):
    """Reads one input; `seeds` are valid ones to begin with."""

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...] = ()


def readers() -> Mapping[str, Target]:
    """Return the targets that read bytes."""
    import msgspec
    import yaml

    from tests.fuzz import originals
    from tests.fuzz.mutations import outcome
    from tests.fuzz.test_configurations import GROUPS, POLICIES, SCHEDULER, configured
    from tests.unit.admission import objects
    from tests.unit.webhooks.serving import review_body
    from volcanoio.engine.admission.queue_rights import is_reviewed_child, required_rights, subjects, used_queues
    from volcanoio.engine.admission.resource_groups import AdmissionConfError, parse_admission_conf
    from volcanoio.engine.admission.review import review
    from volcanoio.engine.scheduling.config.configuration import ConfigurationError
    from volcanoio.localcluster.apiserver.patches import PatchError, json_patch
    from volcanoio.model.documents import decode_json
    from volcanoio.model.manifests import ManifestError, load_manifests
    from volcanoio.runtime.policies import configuration as controllers
    from volcanoio.runtime.webhooks import admission_review
    from volcanoio.runtime.webhooks.admission_review import ReviewError

    stored = objects.Stored(*objects.QUEUES)

    def reviews(body: bytes) -> None:
        found = outcome(ReviewError, admission_review.decode, body)
        if isinstance(found, Exception):
            return
        answer = review(found.request, stored, objects.SETTINGS)
        if found.request.object is not None:
            admission_review.json_patch(found.request.object, answer.object or {})

    def rights(body: bytes) -> None:
        found = outcome(ReviewError, admission_review.decode, body)
        if isinstance(found, Exception):
            return
        required_rights(used_queues(found.request, stored), stored)
        subjects(found.request, found.user)
        is_reviewed_child(found.request, found.user, objects.SETTINGS)

    def patches(body: bytes) -> None:
        operations = outcome(msgspec.DecodeError, decode_json, body)
        if not isinstance(operations, Exception):
            outcome(PatchError, json_patch.apply, {"spec": {"tasks": [{"name": "a"}], "queue": "q"}}, operations)

    def text(error: type[Exception], read: Callable[[str], object]) -> Callable[[bytes], object]:
        return lambda body: outcome(error, read, body.decode(errors="replace"))

    bodies = tuple(review_body(kind, valid) for kind, valid in originals.REVIEWED.values())
    operation = b'[{"op": "add", "path": "/spec/tasks/-", "value": {"name": "c"}}]'
    return {
        "reviews": Target(reviews, bodies),
        "rights": Target(rights, bodies),
        "json-patches": Target(patches, (operation,)),
        "manifests": Target(text(ManifestError, load_manifests), (b"kind: List\nitems: [{kind: Pod}]\n",)),
        "scheduler-configuration": Target(text(ConfigurationError, configured), (yaml.safe_dump(SCHEDULER).encode(),)),
        "controllers-configuration": Target(
            text(controllers.ConfigurationError, lambda found: controllers.parse(found, ["oom_scale_up"])),
            (yaml.safe_dump(POLICIES).encode(),),
        ),
        "admission-configuration": Target(
            text(AdmissionConfError, parse_admission_conf), (yaml.safe_dump(GROUPS).encode(),)
        ),
    }


def properties(module: ModuleType) -> Mapping[str, Target]:
    """Return the property tests of a module that need nothing but drawn input."""
    found = vars(module).items()
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": Target(test.hypothesis.fuzz_one_input)
        for name, test in found
        if hasattr(test, "hypothesis") and not hasattr(test, "pytestmark")
    }


def targets() -> Mapping[str, Target]:
    """Return all targets."""
    found = dict(readers())
    for name in PROPERTIES:
        found |= properties(import_module(f"tests.fuzz.{name}"))
    return found


def fuzz(name: str, options: list[str]) -> None:
    """Run one target in this process, which ends with it."""
    import atheris  # installed by `make soak`

    with atheris.instrument_imports(include=["volcanoio", "volcanoio_plugins", "volcanoio_policies"]):
        target = targets()[name]
    atheris.Setup([sys.argv[0], *options], lambda body: target.run(body) and None)
    atheris.Fuzz()


def run_all(names: list[str], seconds: int) -> int:
    """Run the targets one after the other; returns the exit code of the first that fails."""
    if find_spec("atheris") is None:
        print("skipped: atheris is not installed; it has packages for Linux on x86_64 only")
        return 0
    known = targets()
    for name in names or list(known):
        print(f"{name}: {seconds} s", flush=True)
        with tempfile.TemporaryDirectory(prefix="corpus-") as corpus:
            for number, seed in enumerate(known[name].seeds):
                (Path(corpus) / str(number)).write_bytes(seed)
            options = [corpus, f"-max_total_time={seconds}", f"-artifact_prefix=fuzz-{name}-", *_OPTIONS]
            command = [sys.executable, "-m", "tests.fuzz.guided", "--one", name, *options]
            done = subprocess.run(command, check=False, stderr=subprocess.PIPE)
        if done.returncode:
            sys.stderr.buffer.write(done.stderr[-20_000:])
            print(f"{name} failed: python -m tests.fuzz.guided --again FILE {name} repeats it")
            return done.returncode
    return 0


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="of each target")
    parser.add_argument("--again", metavar="FILE", help="run one target with the input in a file")
    parser.add_argument("target", nargs="*", help="all, if none is named")
    given = parser.parse_args()
    if given.again:
        fuzz(given.target[0], [given.again])
    return run_all(given.target, given.seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
    sys.exit(main())
