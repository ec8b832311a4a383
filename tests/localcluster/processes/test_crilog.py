"""Container logs on disk."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import examples
from volcanoio.localcluster.processes.crilog import LINE_LIMIT, CriLog, read_log


def _texts(lines: list[bytes]) -> list[bytes]:
    return [line.partition(b" ")[2] for line in lines]


def _log(path: Path, **options: int) -> CriLog:
    return CriLog(path / "c" / "0.log", lambda: 1_800_000_000.25, **options)


def test_lines_have_time_stream_and_tag(tmp_path: Path) -> None:
    log = _log(tmp_path)
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"oops\n")
    log.write("stdout", b"o\nrest")
    log.end()
    assert log.path.read_bytes().splitlines() == [
        b"2027-01-15T08:00:00.250000Z stdout F one",
        b"2027-01-15T08:00:00.250000Z stderr F oops",
        b"2027-01-15T08:00:00.250000Z stdout F two",
        b"2027-01-15T08:00:00.250000Z stdout F rest",
    ]


@examples(50, suppress_health_check=[HealthCheck.too_slow])  # it writes files
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_written_lines_are_read_for_any_chunks(data: bytes, cuts: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        log = _log(Path(directory))
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for start, end in itertools.pairwise(edges):
            log.write("stdout", data[start:end])
        log.end()
        whole = data.split(b"\n")
        assert _texts(read_log(log.path)) == (whole if whole[-1] else whole[:-1])


def test_a_long_line_is_cut_and_joined(tmp_path: Path) -> None:
    log = _log(tmp_path)
    text = b"x" * (2 * LINE_LIMIT + 5)
    log.write("stdout", text)
    log.write("stderr", b"between\n")
    log.write("stdout", b"end\n")
    log.end()
    assert sorted(_texts(read_log(log.path))) == sorted([text + b"end", b"between"])
    assert max(map(len, log.path.read_bytes().splitlines())) < LINE_LIMIT + 60


def test_a_log_that_grows_keeps_its_newest_part(tmp_path: Path) -> None:
    log = _log(tmp_path, max_bytes=1000)
    for number in range(100):
        log.write("stdout", b"line %d\n" % number)
    log.end()
    texts = _texts(read_log(log.path))
    assert texts[-1] == b"line 99"
    assert texts == [b"line %d" % number for number in range(100 - len(texts), 100)]
    assert sum(file.stat().st_size for file in log.path.parent.iterdir()) <= 2000


async def test_a_follower_reads_existing_and_new_lines_and_the_end(tmp_path: Path) -> None:
    log = _log(tmp_path)
    log.write("stdout", b"before\n")
    following = log.follow()
    assert _texts(await anext(following)) == [b"before"]
    log.write("stdout", b"after\n")
    log.end()
    assert [text async for lines in following for text in _texts(lines)] == [b"after"]


async def test_a_follower_continues_in_the_next_file(tmp_path: Path) -> None:
    log = _log(tmp_path, max_bytes=200)
    following = log.follow()
    seen: list[bytes] = []
    for number in range(20):
        log.write("stdout", b"line %d\n" % number)
        seen += _texts(await anext(following))
    log.end()
    seen += [text async for lines in following for text in _texts(lines)]
    assert seen == [b"line %d" % number for number in range(20)]


def test_there_need_be_no_log(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none.log") == []
