"""CEL by itself: values, types, bounds. What a real server says of rules is in tests/contract/test_crd_rules.py."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.model.cel import (
    BOOL,
    DYN,
    CompileError,
    CostExceeded,
    EvaluationError,
    InstantiationError,
    ResultError,
    compile_expression,
)
from volcanoio.model.cel.types import INT, STRING, Type, list_of
from volcanoio.model.cel.values import INT_MAX, INT_MIN, double_text, equal


def value_of(source: str, **bindings: Any) -> Any:
    """The value of an expression over variables of no known type."""
    return compile_expression(source, dict.fromkeys(bindings, DYN)).evaluate(bindings)


INTS = st.integers(INT_MIN, INT_MAX)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(INTS, INTS)
def test_arithmetic_is_exact_within_64_bits(one: int, other: int) -> None:
    for sign, result in (("+", one + other), ("-", one - other), ("*", one * other)):
        if INT_MIN <= result <= INT_MAX:
            assert value_of(f"a {sign} b", a=one, b=other) == result
        else:
            with pytest.raises(EvaluationError, match="integer overflow"):
                value_of(f"a {sign} b", a=one, b=other)


@given(INTS, INTS.filter(lambda one: one != 0))
def test_division_cuts_towards_zero(one: int, other: int) -> None:
    if (one, other) == (INT_MIN, -1):
        return
    quotient, rest = value_of("a / b", a=one, b=other), value_of("a % b", a=one, b=other)
    assert quotient * other + rest == one
    assert abs(rest) < abs(other)
    assert rest == 0 or (rest < 0) == (one < 0)


@given(JSON, JSON, JSON)
def test_equality_is_an_equivalence(one: Any, other: Any, third: Any) -> None:
    assert equal(one, one)
    assert equal(one, other) == equal(other, one)
    assert not (equal(one, other) and equal(other, third)) or equal(one, third)


@given(st.text())
def test_texts_are_written_as_in_json(text: str) -> None:
    written = json.dumps(text)
    if "\\ud" not in written:  # pairs of surrogates are one character to CEL, which writes it otherwise
        assert value_of(written) == text


@given(st.lists(INTS, max_size=6))
def test_lists_sort(values: list[int]) -> None:
    assert value_of("a.sort()", a=values) == sorted(values)
    assert value_of("a.isSorted()", a=values) == (values == sorted(values))


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    with suppress(CompileError):
        compile_expression(text, {"a": DYN})


def test_an_error_is_absorbed_by_the_deciding_operand() -> None:
    assert value_of("1 / a == 1 || true", a=0) is True
    assert value_of("1 / a == 1 && false", a=0) is False
    assert value_of("[0, 1].exists(x, 1 / x == 1)") is True
    with pytest.raises(EvaluationError, match="division by zero"):
        value_of("1 / a == 1 || false", a=0)


def test_expensive_expressions_are_stopped() -> None:
    many = list(range(1000))
    with pytest.raises(CostExceeded):
        value_of("a.all(x, a.all(y, a.all(z, x + y + z >= 0)))", a=many)
    budget = [2500]
    program = compile_expression("a.all(x, x >= 0)", {"a": DYN})
    with pytest.raises(CostExceeded):
        program.evaluate({"a": many}, budget)


def test_nesting_has_a_limit() -> None:
    with pytest.raises(CompileError, match="recursion limit"):
        compile_expression("(" * 300 + "1" + ")" * 300, {})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting"),
        ("a b", "ERROR: <input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>"),
        ("'abc", "ERROR: <input>:1:1: Syntax error: token recognition error at: ''abc'"),
        ("b", "ERROR: <input>:1:1: undeclared reference to 'b' (in container '')\n | b\n | ^"),
        ("a.size(1)", "found no matching overload for 'size' applied to 'list(int).(int)'"),
        ("a[0] + 'x'", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("a.map(x.y, 1)", "argument must be a simple name"),
    ],
)
def test_faults_are_shown_where_they_are(source: str, text: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_expression(source, {"a": list_of(INT)})
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("source", "type_"),
    [
        ("a[0]", INT),
        ("a.map(x, string(x))", list_of(STRING)),
        ("a.all(i, x, i < x)", BOOL),
        ("a.size() > 1 ? 'x' : 'y'", STRING),
        ("[]", list_of(DYN)),
        ("a.?b.orValue(1)", None),
    ],
)
def test_values_have_types(source: str, type_: Type | None) -> None:
    if type_ is None:
        with pytest.raises(CompileError, match="does not support field selection"):
            compile_expression(source, {"a": list_of(INT)})
    else:
        assert compile_expression(source, {"a": list_of(INT)}).type == type_


def test_a_wanted_type_is_required() -> None:
    compile_expression("1 < 2", {}, BOOL)
    with pytest.raises(ResultError):
        compile_expression("1 + 2", {}, BOOL)
    with pytest.raises(InstantiationError, match="type conversion error from 'string' to 'int'"):
        compile_expression("int('x') == 1", {})


def test_read_variables_are_determined() -> None:
    program = compile_expression("a.exists(b, b == c)", {"a": DYN, "c": DYN, "d": DYN})
    assert program.uses == {"a", "c"}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e-5, "1e-05"),
        (123456789.0, "123456789"),
        (-0.0, "-0"),
        (2.5e300, "2.5e+300"),
    ],
)
def test_doubles_are_printed_as_go_does(number: float, text: str) -> None:
    assert double_text(number) == text
