"""Arguments of plugins, policies and actions as typed values, with errors that name field, rule and next step."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from volcanoio.model.durations import seconds

ArgumentsType = TypeVar("ArgumentsType", bound=msgspec.Struct)
_GO_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""What Go's strconv.ParseBool takes: Volcano's reader of booleans accepts these strings too."""


class Fault(NamedTuple):
    """What is wrong with one argument; `key` is "" when it is not one argument's."""

    key: str
    text: str


class ArgumentError(ValueError):
    """Arguments that do not fit. `faults` are all that is wrong; raise it for one with `ArgumentError(text, key=KEY)`.

    The key is what the file's line is found by: name it wherever there is one.
    """

    def __init__(self, *texts: str, key: str = "", faults: Sequence[Fault] = ()) -> None:
        self.faults = (*(Fault(key, text) for text in texts), *faults)
        super().__init__("\n".join(fault.text for fault in self.faults))


class GoDuration(float):
    """Seconds, given as a Go duration such as `30s` or `1h5m`: a type for fields of argument Structs."""


def suggestion(word: str, known: Sequence[str]) -> str:
    """`; did you mean "x"?` for a near miss, else the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; known are: {', '.join(sorted(known))}" if known else ""


def annotated(text: str, owner: str, example: str) -> dict[str, Any]:
    """A mapping in YAML or JSON, as annotations hold them; raises ArgumentError, in one line, that names the owner."""
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "it holds a character that no text may hold"
        msg = f"{owner}: not YAML: {problem}{where}; give a mapping such as {example}"
        raise ArgumentError(msg) from None
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        msg = f"{owner}: not a mapping: {given!r}; give one such as {example}"
        raise ArgumentError(msg)
    return given


def convert(arguments: Mapping[str, Any] | None, to: type[ArgumentsType], owner: str) -> ArgumentsType:
    """The arguments as a Struct whose field names (or renames) are the keys; raises ArgumentError with all faults.

    Volcano's keys hold dots (`binpack.cpu`): rename the Struct's fields accordingly. Types are strict, as there: an
    integer in quotes is none. Where a field is a `bool`, Go's spellings of it are taken as strings too; where it is a
    `GoDuration`, a string such as `30s`. null is what is not given.
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
        return msgspec.convert(given, to, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        msg = f"{owner}: {error}"
        raise ArgumentError(msg) from None


_RULES: Mapping[Any, str] = {
    int: "takes a whole number",
    float: "takes a number",
    bool: "takes true or false",
    str: "takes a string",
    GoDuration: "takes a duration such as 30s, 250ms or 1h5m",
}


def _rule(wanted: Any, value: Any, said: str) -> str:
    """What a value of that type has to be, and what to do about this one."""
    if get_origin(wanted) in (Union, UnionType):  # of "int | None": int
        wanted = next((each for each in get_args(wanted) if each in _RULES), wanted)
    if wanted is str:
        return f'takes a string, not {value!r}; write "{value}"'
    if wanted in (int, float, bool) and isinstance(value, str):
        return f'{_RULES[wanted]}, not the string "{value}"; write it without quotes'
    if wanted in _RULES:
        return f"{_RULES[wanted]}, not {value!r}"
    return f"does not fit: {said[:1].lower()}{said[1:]}"


def _decoded(wanted: type, value: Any) -> Any:
    """How msgspec reads a type of ours; raises ValueError and TypeError for what does not fit."""
    if wanted is not GoDuration:
        raise NotImplementedError(wanted)
    if not isinstance(value, str):
        raise TypeError(value)
    return GoDuration(seconds(value))


def flags(
    arguments: Sequence[str], defaults: Mapping[str, str | int | bool], owner: str
) -> dict[str, str | int | bool]:
    """Parse Go flag syntax (`--k=v`, `-k v`, `--k`, `--k=false`), typed as the defaults; raises ArgumentError.

    Where Go stops reading (what is no flag, an unknown one, a value of the wrong type) this raises.
    """
    result = dict(defaults)
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        match = _FLAG.fullmatch(word)
        if match is None:
            msg = f'{owner}: "{word}" is not a flag; write --name=value'
            raise ArgumentError(msg)
        name, text = match["name"], match["value"]
        if name not in defaults:
            msg = f'{owner}: unknown flag "--{name}"{suggestion(name, sorted(defaults))}'
            raise ArgumentError(msg)
        default = defaults[name]
        if text is None and not isinstance(default, bool):
            if not rest:
                msg = f"{owner}: --{name} needs a value"
                raise ArgumentError(msg)
            text = rest.pop(0)
        result[name] = _flag_value(default, name, text, owner)
    return result


_FLAG = re.compile(r"--?(?P<name>[^-=][^=]*)(?:=(?P<value>.*))?", re.DOTALL)


def _flag_value(default: str | int | bool, name: str, text: str | None, owner: str) -> str | int | bool:
    """A flag's value as its default's type; None is a boolean flag that was just named."""
    if isinstance(default, bool):
        if text is None:
            return True
        if text not in _GO_BOOLEANS:
            msg = f'{owner}: --{name} takes true or false, not "{text}"'
            raise ArgumentError(msg)
        return _GO_BOOLEANS[text]
    assert text is not None
    if isinstance(default, int):
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            msg = f'{owner}: --{name} takes a whole number, not "{text}"'
            raise ArgumentError(msg)
        return int(text)
    return text
