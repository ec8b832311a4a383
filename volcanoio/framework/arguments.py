"""Typed arguments of plugins, policies and actions, with errors that name the field, the rule and the next step."""

import difflib
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import nsmallest
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from volcanoio.model.documents import load_yaml
from volcanoio.model.times import parse_duration

ArgumentsType = TypeVar("ArgumentsType", bound=msgspec.Struct)
_GO_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The strings that Go's strconv.ParseBool accepts, as Volcano's reader of booleans does."""


class Fault(NamedTuple):
    """One invalid argument; `key` is "" if the error is not about a single argument."""

    key: str
    text: str


class ArgumentError(ValueError):
    """Invalid arguments; `faults` are all errors found. For a single one raise `ArgumentError(text, key=KEY)`.

    The key is used to find the line in the configuration file: give it wherever there is one.
    """

    def __init__(self, *texts: str, key: str = "", faults: Sequence[Fault] = ()) -> None:
        self.faults = (*(Fault(key, text) for text in texts), *faults)
        super().__init__("\n".join(fault.text for fault in self.faults))


class GoDuration(float):
    """Seconds, given as a Go duration such as `30s` or `1h5m`: a type for fields of argument Structs."""


class NoArguments(msgspec.Struct, frozen=True):
    """No arguments: any given one is an error."""


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, as `1 pod` or `2 pods`; `plural` is for nouns that take no s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


MOST_COMPARED, LONGEST_COMPARED = 500, 64
"""Most words that a misspelled one is compared with, and the longest ones: comparing is quadratic in the length."""
_SHOWN, _FEW = 40, 10


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters: longer ones end with `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def few(names: Collection[str], most: int = _FEW) -> str:
    """Return the first names in their order, and how many more there are: `a, b and 7 more`."""
    shown = ", ".join(shortened(name, LONGEST_COMPARED) for name in nsmallest(most, names))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def suggestion(word: str, known: Collection[str]) -> str:
    """Return `; did you mean "x"?` for a near miss, else the list of valid values, of very many the first few."""
    if len(known) <= MOST_COMPARED and len(word) <= LONGEST_COMPARED:
        short = [name for name in known if len(name) <= LONGEST_COMPARED]
        if close := difflib.get_close_matches(word, short, n=1, cutoff=0.6):
            return f'; did you mean "{close[0]}"?'
    return f"; valid values: {few(known, _SHOWN if len(known) <= _SHOWN else _FEW)}" if known else ""


def parse_annotation(text: str, owner: str, example: str) -> dict[str, Any]:
    """Parse a YAML or JSON mapping from an annotation; raises a one-line ArgumentError that names the owner."""
    try:
        given = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "it holds a character that no text may hold"
        raise ArgumentError(f"{owner}: not YAML: {problem}{where}; give a mapping such as {example}") from None
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ArgumentError(f"{owner}: not a mapping: {given!r}; give one such as {example}")
    return given


_recorded: ContextVar[list[msgspec.Struct] | None] = ContextVar("recorded", default=None)


@contextmanager
def recorded_arguments() -> Iterator[list[msgspec.Struct]]:
    """Collect what `convert` returns in the block: the arguments of plugins constructed there, with their defaults."""
    found: list[msgspec.Struct] = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def convert(arguments: Mapping[str, Any] | None, to: type[ArgumentsType], owner: str) -> ArgumentsType:
    """Convert arguments to a Struct whose field names (or renames) are the keys; raises ArgumentError with all errors.

    Volcano's keys contain dots (`binpack.cpu`): rename the Struct's fields accordingly. Types are strict, as in
    Volcano: a quoted integer is a string. A `bool` field also accepts Go's spellings as strings; a `GoDuration` field
    accepts a string such as `30s`. A null value counts as not given.
    """
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    fields = {field.encode_name: field for field in msgspec.structs.fields(to)}
    faults = []
    for key, value in given.items():
        if key not in fields:
            faults.append(Fault(key, f'{owner}: unknown argument "{key}"{suggestion(key, sorted(fields))}'))
            continue
        if fields[key].type is bool and isinstance(value, str):
            given[key] = value = _GO_BOOLEANS.get(value, value)
        try:
            msgspec.convert(value, fields[key].type, dec_hook=_decoded)
        except msgspec.ValidationError as error:
            faults.append(Fault(key, f'{owner}: "{key}" {_rule(fields[key].type, value, str(error))}'))
    if faults:
        raise ArgumentError(faults=faults)
    try:
        result = msgspec.convert(given, to, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{owner}: {error}") from None
    if (recorded := _recorded.get()) is not None:
        recorded.append(result)
    return result


_RULES: Mapping[Any, str] = {
    int: "takes a whole number",
    float: "takes a number",
    bool: "takes true or false",
    str: "takes a string",
    GoDuration: "takes a duration such as 30s, 250ms or 1h5m",
}


def _rule(wanted: Any, value: Any, error: str) -> str:
    """Return the rule that a value of this type must follow, and how to fix the given value."""
    if get_origin(wanted) in (Union, UnionType):  # of "int | None": int
        wanted = next((each for each in get_args(wanted) if each in _RULES), wanted)
    if wanted is str:
        return f'takes a string, not {value!r}; write "{value}"'
    if wanted in (int, float, bool) and isinstance(value, str):
        return f'{_RULES[wanted]}, not the string "{value}"; write it without quotes'
    if wanted in _RULES:
        return f"{_RULES[wanted]}, not {value!r}"
    return f"does not fit: {error[:1].lower()}{error[1:]}"


def _decoded(wanted: type, value: Any) -> Any:
    """Decode `GoDuration` for msgspec; raises ValueError or TypeError for an invalid value."""
    if wanted is not GoDuration:
        raise NotImplementedError(wanted)
    if not isinstance(value, str):
        raise TypeError(value)
    return GoDuration(parse_duration(value))


def parse_flags(
    arguments: Sequence[str], defaults: Mapping[str, str | int | bool], owner: str
) -> dict[str, str | int | bool]:
    """Parse Go flag syntax (`--k=v`, `-k v`, `--k`, `--k=false`), typed as the defaults; raises ArgumentError.

    This raises where Go stops reading: at a word that is no flag, an unknown flag or a value of the wrong type.
    """
    result = dict(defaults)
    rest = deque(arguments)
    while rest:
        word = rest.popleft()
        if (match := _FLAG.fullmatch(word)) is None:
            raise ArgumentError(f'{owner}: "{word}" is not a flag; write --name=value')
        name, text = match["name"], match["value"]
        if name not in defaults:
            raise ArgumentError(f'{owner}: unknown flag "--{name}"{suggestion(name, sorted(defaults))}')
        default = defaults[name]
        if text is None and not isinstance(default, bool):
            if not rest:
                raise ArgumentError(f"{owner}: --{name} needs a value")
            text = rest.popleft()
        result[name] = _flag_value(default, name, text, owner)
    return result


_FLAG = re.compile(r"--?(?P<name>[^-=][^=]*)(?:=(?P<value>.*))?", re.DOTALL)


def _flag_value(default: str | int | bool, name: str, text: str | None, owner: str) -> str | int | bool:
    """Convert a flag's text to the type of its default; None is a boolean flag without a value."""
    if isinstance(default, bool):
        if text is None:
            return True
        if text not in _GO_BOOLEANS:
            raise ArgumentError(f'{owner}: --{name} takes true or false, not "{text}"')
        return _GO_BOOLEANS[text]
    assert text is not None
    if isinstance(default, int):
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise ArgumentError(f'{owner}: --{name} takes a whole number, not "{text}"')
        return int(text)
    return text
