"""Frames of SPDY/3.1, as far as `kubectl exec`, `attach` and `port-forward` use them (draft-mbelshe-httpbis-spdy-00).

A control frame is a version and type, flags, a length and its content; a data frame has the number of its stream
instead. Headers are compressed with a dictionary that both sides know. Windows are not kept: the other side
(moby/spdystream) keeps none either; what slows a sender down is TCP.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

HEAD = 8
"""Bytes before a frame's content."""
FIN = 1
"""The flag of a stream's last frame."""
_VERSION = 3
_DICTIONARY_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_DICTIONARY_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _DICTIONARY_WORDS.split(" "))
    + _DICTIONARY_REST
)
"""What headers are compressed with (2.6.10.1)."""


class Kind(IntEnum):
    """Types of control frames; DATA stands for a data frame."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Frame(NamedTuple):
    """A frame. `stream` is that of a data frame; in a control frame it is part of the content."""

    kind: int
    stream: int
    flags: int
    length: int


class ProtocolError(ValueError):
    """The other side does not speak SPDY/3.1."""


def read_head(head: bytes) -> Frame:
    """The frame that begins so. Raises ProtocolError."""
    first, rest = struct.unpack(">II", head)
    flags, length = rest >> 24, rest & 0xFFFFFF
    if not first >> 31:
        return Frame(Kind.DATA, first, flags, length)
    if first >> 16 & 0x7FFF != _VERSION:
        raise ProtocolError(f"SPDY version {first >> 16 & 0x7FFF} instead of {_VERSION}")
    return Frame(first & 0xFFFF, 0, flags, length)


def control(kind: Kind, content: bytes, flags: int = 0) -> bytes:
    """A control frame."""
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, flags << 24 | len(content)) + content


def data(stream: int, content: bytes, flags: int = 0) -> bytes:
    """A data frame."""
    return struct.pack(">II", stream, flags << 24 | len(content)) + content


class HeaderCodec:
    """Headers of one connection, which share their compression."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def decode(self, block: bytes) -> dict[str, str]:
        """The headers in a block, names in lower case. Raises ProtocolError."""
        try:
            plain = self._inflate.decompress(block)
            (count,), at = struct.unpack_from(">I", plain), 4
            found = []
            for _ in range(2 * count):
                (length,) = struct.unpack_from(">I", plain, at)
                found.append(plain[at + 4 : at + 4 + length].decode())
                at += 4 + length
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"headers: {error}") from None
        return {name.lower(): value for name, value in zip(found[::2], found[1::2], strict=True)}

    def encode(self, headers: dict[str, str]) -> bytes:
        """A block of these headers."""
        plain = [struct.pack(">I", len(headers))]
        for pair in headers.items():
            plain += [struct.pack(">I", len(text.encode())) + text.encode() for text in pair]
        return self._deflate.compress(b"".join(plain)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
