"""SPDY frames as kubectl's library reads and writes them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from volcanoio.localcluster.apiserver.streams.spdy import (
    DICTIONARY,
    FIN,
    HEAD,
    Frame,
    HeaderCodec,
    Kind,
    ProtocolError,
    control,
    data,
    read_head,
)

_NAMES = st.text("abcdefghij-", min_size=1, max_size=10)


def test_the_dictionary_is_as_long_as_the_specification_says() -> None:
    assert len(DICTIONARY) == 1423


@examples(20)  # a codec takes a while to make
@given(st.lists(st.dictionaries(_NAMES, st.text(max_size=20), max_size=4), max_size=4))
def test_headers_survive_a_connection(blocks: list[dict[str, str]]) -> None:
    ours, theirs = HeaderCodec(), HeaderCodec()
    for headers in blocks:
        assert theirs.decode(ours.encode(headers)) == headers


@given(st.integers(1, 2**31 - 1), st.binary(max_size=50), st.sampled_from([0, FIN]))
def test_data_frames_are_read_as_written(stream: int, content: bytes, flags: int) -> None:
    frame = data(stream, content, flags)
    assert read_head(frame[:HEAD]) == Frame(Kind.DATA, stream, flags, len(content))
    assert frame[HEAD:] == content


@given(st.sampled_from([kind for kind in Kind if kind is not Kind.DATA]), st.binary(max_size=50))
def test_control_frames_are_read_as_written(kind: Kind, content: bytes) -> None:
    frame = control(kind, content)
    assert read_head(frame[:HEAD]) == Frame(kind, 0, 0, len(content))


def test_another_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="version 2"):
        read_head(struct.pack(">II", 1 << 31 | 2 << 16 | 1, 0))


@pytest.mark.parametrize("block", [b"", b"nonsense", HeaderCodec().encode({"a": "b"})[:-8]])
def test_broken_headers_are_refused(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeaderCodec().decode(block)
