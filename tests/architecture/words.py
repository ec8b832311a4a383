"""Words that are no longer used: terms of an earlier private vocabulary and turns of phrase that are hard to read.

`python -m tests.architecture.words [PATH ...]` prints each occurrence with the term to use instead.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("volcanoio", "plugins", "policies", "bench", "tests", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")
OWN = ("tests/architecture/words.py", "tests/architecture/test_words.py")
"""The list itself."""

DEPTH = {"tests/": 1, "bench/": 1, "volcanoio/engine/": 3, "volcanoio/localcluster/": 3, "volcanoio/runtime/": 3}

WORDS = {
    "hopes hopeless vain rests": "unschedulable cache, unschedulable until",
    "news": "cluster generation, cluster event",
    "occasion occasions": "cluster event; lifecycle event",
    "happening happenings": "lifecycle event",
    "taker takers takable": "preemptor; preemptable",
    "hunt hunting hunts": "victim search",
    "prospect prospects": "candidate node",
    "seat seats seated seating unseat unseats unseated": "assume, forget; allocate, unallocate",
    "standing": "order, rank; feasible",
    "foreseen": "enqueue verdict",
    "promise promises promised": "quota reservation; nomination",
    "homeless stranded": "best-effort task",
    "stray strays": "pod without PodGroup",
    "singles singleturns": "single pods",
    "kin kins": "label class",
    "onetask oneturn greedy": "per task, by node row, by node state",
    "draft drafts drafted": "reducer, desired state, plan",
    "scene scenes": "observed state",
    "settle settles settled": "reconcile; complete, resolve, stable",
    "converge converges converged converging": "reconcile",
    "undertaking undertakings": "expectation, in-flight effect",
    "telling told tells tell": "record an event; notify, report, return, tell apart: distinguish",
    "roll rolls": "pod summary",
    "tally tallies": "counts",
    "desk": "work queue, queue, instances",
    "saying sayings": "condition, reason, message",
    "stranger strangers": "object of another owner, not ours",
    "mortal mortals": "finished, with a TTL",
    "judge judges judged ruling rulings": "admission, validate, evaluate, verdict",
    "picture pictures": "snapshot; diagram",
    "mend mends mended mending": "fix",
    "lacking lacks lack": "missing, has no",
    "mind minds minded": "constrain, object, matter",
    "nobody": "no policy, no caller, none",
    "whoever": "the caller, the client, any",
    "anew": "again",
    "doomed": "to be deleted",
    "goings": "deletions",
    "errand errands": "request, effect",
    "midst": "during",
}
"""Words to avoid, and what to write instead."""

PHRASES = {
    "nobody minds": "no policy objected",
    "known are": "valid values:",
    "left out:": "skipped",
    "at rest": "unschedulable until",
    "as it is then": "the current value",
    "take back": "undo, unallocate",
    "taken back": "undone, unallocated",
    "what of a": "which fields of a",
    "has not got": "does not have",
}

ALLOWED = (
    "mindspore",
    "mindcluster",
    "AscendMindClusterVNPUEnable",
    "roll back",
    "rolls back",
    "roll out",
    r"np\.roll",
    r"_file\.tell",
    'tag="Told',
)
"""Patterns of ordinary terms, products, library functions and a tag of the journal that contain a listed word."""

TERM = {word: instead for words, instead in WORDS.items() for word in words.split()}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""A word in prose, or one part of a name in snake_case, camelCase or capitals."""
_PHRASE = re.compile("|".join(rf"\b{re.escape(phrase)}(?!\w)" for phrase in PHRASES), re.IGNORECASE)
_ALLOWED = re.compile("|".join(rf"\b{phrase}\b" for phrase in ALLOWED), re.IGNORECASE)


@dataclass(frozen=True)
class Use:
    """One line that uses a listed word or phrase."""

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word} (write: {TERM.get(self.word) or PHRASES[self.word]})"


def texts(sources: Iterable[str] = SOURCES) -> Iterator[tuple[str, str]]:
    """Yield the path, relative to the repository, and the text of each Python file and page."""
    for source in sources:
        root = ROOT / source
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            name = str(path.relative_to(ROOT))
            if path.suffix in {".py", ".md"} and name not in OWN:
                yield name, path.read_text()


def uses_in(path: str, text: str) -> list[Use]:
    """Return the uses in one text, with lines counted from 1."""
    found = []
    for number, line in enumerate(_ALLOWED.sub("", text).splitlines(), 1):
        found += [Use(path, number, word) for part in _WORD.findall(line) if (word := part.lower()) in TERM]
        found += [Use(path, number, phrase.lower()) for phrase in _PHRASE.findall(line)]
    return found


def package_of(path: str) -> str:
    """Return the package whose limit holds for a file: one to three folders, by DEPTH."""
    folders = path.split("/")[:-1]
    depth = max((depth for package, depth in DEPTH.items() if path.startswith(package)), default=2)
    return "/".join(folders[:depth]) or path


@cache
def counts() -> Counter[str]:
    """Return how many uses each package has."""
    found: Counter[str] = Counter()
    for path, text in texts():
        words = Counter(map(str.lower, _WORD.findall(_ALLOWED.sub("", text))))
        found[package_of(path)] += sum(words[word] for word in TERM) + len(_PHRASE.findall(text))
    return found


def main(sources: list[str]) -> None:
    """Print each use below the given paths."""
    uses = [use for path, text in texts(sources or SOURCES) for use in uses_in(path, text)]
    for use in uses:
        print(use)
    totals = Counter(use.word for use in uses).most_common()
    print(len(uses), "uses:", ", ".join(f"{word} {count}" for word, count in totals))


if __name__ == "__main__":
    main([path.rstrip("/") for path in sys.argv[1:]])
