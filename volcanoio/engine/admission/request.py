"""Admission requests and their results: request, decoded objects, and the problems found.

Each problem is one line with the field, the rule and the next step; all problems of an object are reported together.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from volcanoio.engine.admission.resource_groups import ResourceGroup
from volcanoio.framework.arguments import shortened, suggestion
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import names, times
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

MAX_QUEUE_DEPTH = 5
"""Default maximum depth of the queue tree."""
MOST_FINDINGS, MOST_HINTS = 50, 5
"""Most problems that are reported together, and how many of them come with a suggestion."""
_LONGEST = 1000
"""Characters of a rule and of its advice; the field has a quarter of it."""


class Operation(StrEnum):
    """The writes that are reviewed; writes to `/status` are not."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class User(msgspec.Struct, frozen=True, rename="camel"):
    """The author of a request, as in `AdmissionReview.request.userInfo`."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class ReviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One write. `resource` is `Kind.resource`; `object` is None for DELETE and `old` for CREATE.

    `username` is that of the author, "" where it is not known.
    """

    operation: Operation
    resource: str
    name: str = ""
    namespace: str = ""
    object: Manifest | None = None
    old: Manifest | None = None
    username: str = ""


class Read(NamedTuple):
    """Objects that a review reads: one by name, or all of a kind (in a namespace)."""

    kind: Kind
    name: str = ""
    namespace: str = ""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `object` is the one to store, with defaults.

    `messages` are the problems, one line each; `left_out` is how many more there are.
    """

    allowed: bool
    object: Manifest | None = None
    messages: tuple[str, ...] = ()
    left_out: int = 0
    warnings: tuple[str, ...] = ()


class AdmissionLookup(Protocol):
    """Read access to stored objects: queues, namespaces."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """Return the object, or None."""
        ...

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """Return all objects of a kind."""
        ...


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the admission (Volcano: cmd/webhook-manager/app/options).

    - `job_plugins`: factories of the plugins that a Job may name, called with their arguments; None accepts any name
    - `strict`: refuse what is otherwise accepted with a warning
    - `schedulers`: all schedulers of the cluster, () where that is unknown
    - `gated_schedulers`: schedulers that remove the gate of queue admission, () where that feature is off
    - `trusted_users`: user names of controllers that create Jobs, PodGroups and pods for objects that were reviewed
    """

    schedulers: tuple[str, ...] = ()
    gated_schedulers: tuple[str, ...] = ()
    scheduler_name: str = names.SCHEDULER_NAME
    job_plugins: Mapping[str, Callable[[Sequence[str]], JobPlugin]] | None = None
    max_queue_depth: int = MAX_QUEUE_DEPTH
    root_queue_protection: bool = True
    queue_allocated_pods_check: bool = False
    strict: bool = False
    resource_groups: tuple[ResourceGroup, ...] = ()
    trusted_users: tuple[str, ...] = ()

    def schedules(self, scheduler: str) -> bool:
        """Return whether pods of this scheduler belong to volcanoio."""
        if scheduler == names.DEFAULT_SCHEDULER:
            return self.scheduler_name == scheduler
        return scheduler in self.schedulers or scheduler == self.scheduler_name


class Findings:
    """Collects problems and warnings, so that all are reported together.

    With `strict`, objects that only Volcano's newest admission refuses are refused instead of accepted with a warning.
    An object of the largest accepted size can have very many problems: of each sort the first `MOST_FINDINGS` are kept,
    the others counted in `left_out`, and long texts are shortened.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.messages: list[str] = []
        self.warnings: list[str] = []
        self.left_out = 0
        self._strict = strict
        self._hints = 0

    def refuse(self, field: str, rule: str, advice: str = "") -> None:
        """Add a problem: `field: rule; advice`."""
        if len(self.messages) < MOST_FINDINGS:
            self.messages.append(_line(field, rule, advice))
        else:
            self.left_out += 1

    def refuse_line(self, problem: str, advice: str) -> None:
        """Add a problem that already names its field."""
        field, _, rule = problem.partition(": ")
        self.refuse(field, rule or "invalid", advice)

    def hint(self, word: str, known: Collection[str]) -> str:
        """Return a `suggestion` for one of the first misspelled words, "" for further ones: each costs comparisons."""
        self._hints += 1
        return suggestion(word, known) if self._hints <= MOST_HINTS else ""

    def check_duration(self, field: str, text: str | None) -> None:
        """Refuse an invalid duration: Volcano cannot read such an object either."""
        try:
            times.parse_duration("0" if text is None else text)
        except times.DurationError as error:
            self.refuse(field, str(error))

    def warn_unless_strict(self, field: str, rule: str, meaning: str, advice: str) -> None:
        """Warn, with the meaning that is assumed; refuse when strict."""
        if self._strict:
            self.refuse(field, rule, advice)
        else:
            self.warn(field, rule, f"{meaning}; {advice}")

    def warn(self, field: str, rule: str, advice: str) -> None:
        """Warn, also when strict."""
        if len(self.warnings) < MOST_FINDINGS:
            self.warnings.append(_line(field, rule, advice))


def _line(field: str, rule: str, advice: str) -> str:
    line = f"{shortened(field, _LONGEST // 4)}: {shortened(rule, _LONGEST)}"
    return f"{line}; {shortened(advice, _LONGEST)}" if advice else line


ObjectType = TypeVar("ObjectType", bound=ApiObject)
_KEEPS_NULLS = frozenset({"plugins", "template", "volumeClaim"})


def decode(manifest: Manifest | None, to: type[ObjectType], findings: Findings) -> ObjectType | None:
    """Return the object; None, and a problem, when a field has the wrong type.

    A null is an absent field, as in Kubernetes.
    """
    try:
        return msgspec.convert(_without_nulls(manifest or {}), to)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        field = place.rstrip("`").lstrip(".") or to.__name__
        findings.refuse(field, rule, f"see kubectl explain {to.__name__.lower()}")
        return None


def decode_stored(manifest: Manifest | None, to: type[ObjectType]) -> ObjectType | None:
    """Return a stored object, None when it cannot be decoded: it may be older than the rules."""
    return decode(manifest, to, Findings())


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: item if key in _KEEPS_NULLS else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
