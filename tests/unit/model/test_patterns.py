"""Go's regular expressions in Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.model.validation.patterns import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("^a$", ["a"], ["a\n", "ba"]),
        (r"^\d+\z", ["12"], ["١٢", "1\n"]),
        (r"^[[:alpha:]_]+$", ["ab_"], ["a1"]),
        (r"^\pL+$", ["aé"], ["a1"]),
        (r"^\p{Greek}$", ["α"], ["a"]),
        (r"^[^\d\s]$", ["a"], ["1", " "]),
        (r"^\Qa.b\E$", ["a.b"], ["axb"]),
        ("^a(?i)b$", ["ab", "aB"], ["Ab"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        ("^(?P<n>a)(?:b|c)$", ["ab", "ac"], ["aa"]),
        (r"^[]a-]+$", ["]a-"], ["b"]),
        ("^a{2,3}$", ["aa", "aaa"], ["a"]),
        ("^a{$", ["a{"], ["a"]),
        ("^[[&&--]$", ["[", "&", "-"], ["a"]),
    ],
)
def test_patterns_match_as_in_go(pattern: str, matches: list[str], others: list[str]) -> None:
    search = compile_pattern(pattern).search
    assert [one for one in [*matches, *others] if search(one)] == matches


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid named capture: `(?<!a)b`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_patterns_are_refused_as_in_go(pattern: str, text: str) -> None:
    with pytest.raises(PatternError) as raised:
        compile_pattern(pattern)
    assert str(raised.value) == f"error parsing regexp: {text}"


@given(st.text(alphabet="ab.()|*+?[]^-\\d{1,}$ é", max_size=12), st.text(alphabet="ab1é -", max_size=6))
def test_any_pattern_compiles_or_is_refused(pattern: str, text: str) -> None:
    try:
        found = compile_pattern(pattern)
    except PatternError:
        return
    found.search(text)


@given(st.text(max_size=12).filter(lambda text: "\\" not in text))
def test_quoted_texts_match_themselves(text: str) -> None:
    assert compile_pattern(rf"^\Q{text}\E$").search(text)
