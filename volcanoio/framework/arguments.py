"""Arguments of plugins, policies and actions as typed values, with errors that name field, rule and next step."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

ArgumentsType = TypeVar("ArgumentsType", bound=msgspec.Struct)


class ArgumentError(ValueError):
    """Arguments that do not fit."""


def suggestion(word: str, known: Sequence[str]) -> str:
    """`; did you mean "x"?` for a near miss, else the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; known are: {', '.join(sorted(known))}" if known else ""


def convert(arguments: Mapping[str, Any] | None, to: type[ArgumentsType], owner: str) -> ArgumentsType:
    """The arguments as a Struct whose field names (or renames) are the keys; raises ArgumentError.

    Volcano's keys hold dots (`binpack.cpu`): rename the Struct's fields accordingly.
    """
    given = dict(arguments or {})
    fields = {field.encode_name for field in msgspec.structs.fields(to)}
    for key in given:
        if key not in fields:
            msg = f'{owner}: unknown argument "{key}"{suggestion(key, sorted(fields))}'
            raise ArgumentError(msg)
    try:
        return msgspec.convert(given, to)
    except msgspec.ValidationError as error:
        msg = f"{owner}: {error}"
        raise ArgumentError(msg) from None


def flags(
    arguments: Sequence[str], defaults: Mapping[str, str | int | bool], owner: str
) -> dict[str, str | int | bool]:
    """Parse Go flag syntax (`--k=v`, `-k v`, `--k`, `--k=false`), typed as the defaults; raises ArgumentError."""
    result = dict(defaults)
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            msg = f'{owner}: "{word}" is not a flag; write --name=value'
            raise ArgumentError(msg)
        name, separator, text = word.lstrip("-").partition("=")
        if name not in defaults:
            msg = f'{owner}: unknown flag "--{name}"{suggestion(name, sorted(defaults))}'
            raise ArgumentError(msg)
        default = defaults[name]
        if isinstance(default, bool):
            if separator and text.lower() not in ("true", "false", "1", "0", "t", "f"):
                msg = f'{owner}: --{name} takes true or false, not "{text}"'
                raise ArgumentError(msg)
            result[name] = not separator or text.lower() in ("true", "1", "t")
            continue
        if not separator:
            if not rest:
                msg = f"{owner}: --{name} needs a value"
                raise ArgumentError(msg)
            text = rest.pop(0)
        if isinstance(default, int):
            if not text.lstrip("-").isdigit():
                msg = f'{owner}: --{name} takes a whole number, not "{text}"'
                raise ArgumentError(msg)
            result[name] = int(text)
        else:
            result[name] = text
    return result
