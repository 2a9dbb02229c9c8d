"""Reading LTX version 3, the files Litestream writes: one range of transactions, page by page.

Layout, all big-endian (superfly/ltx, README "File Format", read together with files that
Litestream 0.5.17 wrote):

    header    100 bytes: "LTX1", flags u32, page size u32, commit u32 (pages in the database
              afterwards), min and max transaction id u64, timestamp u64 (ms), pre-apply checksum
              u64, WAL offset and size u64, WAL salts 2 x u32, node id u64, 20 zero bytes
    frames    page number u32, flags u16 (= 1), size u32, one LZ4 block of that size; page numbers
              grow; six zero bytes end the frames
    index     (page number, offset, length) as unsigned varints, one zero byte, u64 length of these
    trailer   post-apply checksum u64, file checksum u64

The file checksum is CRC-64/GO-ISO with bit 63 set, over everything before it, with each LZ4 block
replaced by the page it decompresses to. A file that starts at transaction 1 is a snapshot: it holds
every page but the lock page.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import BinaryIO

import lz4.block  # type: ignore[import-untyped]
from fastcrc import crc64

from service.errors import ReplicationError

HEADER = struct.Struct(">4sIIIQQQQQQIIQ20s")
FRAME = struct.Struct(">IHI")
TRAILER = struct.Struct(">QQ")
MAGIC = b"LTX1"
FRAMES_END = bytes(6)
#: Frame flag: a size follows the six bytes of page number and flags.
SIZED = 1
#: The header flag Litestream sets: the database's own rolling checksum is not tracked.
NO_CHECKSUM = 2
CHECKSUM_BIT = 1 << 63
#: The byte SQLite locks; the page that holds it never carries data (sqlite.org/fileformat2).
PENDING_BYTE = 0x40000000


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """What an LTX file says about itself: page size in bytes, sizes in pages, time in Unix ms."""

    flags: int
    page_size: int
    commit: int
    min_txid: int
    max_txid: int
    timestamp_ms: int

    @property
    def lock_page(self) -> int:
        """The number of the page that is never stored."""
        return PENDING_BYTE // self.page_size + 1


class Reader:
    """One LTX file, read once from start to end in bounded memory.

    Attributes:
        header: read and checked on construction.

    Raises:
        ReplicationError: anything is not as the format demands. Pages already handed out may be
            wrong then; only a `pages()` that ran to its end vouches for all of them.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        raw = self._exactly(HEADER.size)
        self._crc: int = crc64.go_iso(raw)
        self._at = HEADER.size
        self.header = _header(raw)

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Yield (page number, page) in ascending order, then verify index, trailer and checksum."""
        header = self.header
        snapshot = header.min_txid == 1
        index: list[tuple[int, int, int]] = []
        last = 0
        while (start := self._exactly(6)) != FRAMES_END:
            frame = start + self._exactly(4)
            number, flags, size = FRAME.unpack(frame)
            if flags != SIZED:
                raise ReplicationError(f"LTX frame with unknown flags {flags}")
            if not last < number <= header.commit or number == header.lock_page:
                raise ReplicationError(f"LTX frame of page {number} is out of place")
            if snapshot and number != last + 1 and number - 1 != header.lock_page:
                raise ReplicationError(f"LTX snapshot lacks page {number - 1}")
            page = self._page(size)
            self._crc = crc64.go_iso(page, crc64.go_iso(frame, self._crc))
            length = FRAME.size + size
            index.append((number, self._at, length))
            self._at += length
            last = number
            yield number, page
        if snapshot and not _complete(header, last):
            raise ReplicationError("LTX snapshot ends early")
        self._end(index)

    def _page(self, size: int) -> bytes:
        if size > lz4_bound(self.header.page_size):
            raise ReplicationError(f"LTX frame of {size} bytes")
        block = self._exactly(size)
        try:
            page: bytes = lz4.block.decompress(block, uncompressed_size=self.header.page_size)
        except lz4.block.LZ4BlockError as error:
            raise ReplicationError("LTX frame does not decompress") from error
        if len(page) != self.header.page_size:
            raise ReplicationError(f"LTX frame decompresses to {len(page)} bytes")
        return page

    def _end(self, index: list[tuple[int, int, int]]) -> None:
        expected = _index(index)
        found = self._exactly(len(expected))
        if found != expected:
            raise ReplicationError("LTX index does not match its frames")
        post_apply, checksum = TRAILER.unpack(self._exactly(TRAILER.size))
        tail = FRAMES_END + found + post_apply.to_bytes(8, "big")
        if crc64.go_iso(tail, self._crc) | CHECKSUM_BIT != checksum:
            raise ReplicationError("LTX checksum mismatch")
        if self._stream.read(1):
            raise ReplicationError("LTX file goes on after its trailer")

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) != size:
            raise ReplicationError("LTX file is cut short")
        return data


def verify(stream: BinaryIO) -> Header:
    """Read a whole file, keep nothing, rewind.

    Raises:
        ReplicationError: see `Reader`.
    """
    stream.seek(0)
    reader = Reader(stream)
    for _ in reader.pages():
        pass
    stream.seek(0)
    return reader.header


def encode(header: Header, pages: dict[int, bytes]) -> bytes:
    """Build a file from pages by number: the decoder's counterpart, for tests and tools."""
    raw = HEADER.pack(
        MAGIC,
        header.flags,
        header.page_size,
        header.commit,
        header.min_txid,
        header.max_txid,
        header.timestamp_ms,
        *(0, 0, 0, 0, 0, 0),
        bytes(20),
    )
    out = bytearray(raw)
    crc = crc64.go_iso(raw)
    index = []
    for number, page in sorted(pages.items()):
        block = lz4.block.compress(page, store_size=False)
        frame = FRAME.pack(number, SIZED, len(block))
        index.append((number, len(out), len(frame) + len(block)))
        crc = crc64.go_iso(page, crc64.go_iso(frame, crc))
        out += frame + block
    tail = FRAMES_END + _index(index) + bytes(8)
    return bytes(out + tail) + (crc64.go_iso(tail, crc) | CHECKSUM_BIT).to_bytes(8, "big")


def lz4_bound(size: int) -> int:
    """The longest LZ4 block that `size` bytes can make (LZ4_COMPRESSBOUND of lz4.h)."""
    return size + size // 255 + 16


def _header(raw: bytes) -> Header:
    magic, flags, page_size, commit, low, high, timestamp, *_, reserved = HEADER.unpack(raw)
    if magic != MAGIC:
        raise ReplicationError("not an LTX file")
    if flags != NO_CHECKSUM or reserved != bytes(20):
        raise ReplicationError(f"LTX file with unknown flags {flags:#x}")
    if not 512 <= page_size <= 65_536 or page_size & (page_size - 1):
        raise ReplicationError(f"LTX file with pages of {page_size} bytes")
    if not 0 < low <= high or commit == 0:
        raise ReplicationError(f"LTX file of transactions {low} to {high}, {commit} pages")
    return Header(flags, page_size, commit, low, high, timestamp)


def _complete(header: Header, last: int) -> bool:
    if header.commit == header.lock_page:
        return last == header.commit - 1
    return last == header.commit


def _index(frames: list[tuple[int, int, int]]) -> bytes:
    body = bytearray()
    for frame in frames:
        for value in frame:
            rest = value
            while rest > 0x7F:
                body.append(rest & 0x7F | 0x80)
                rest >>= 7
            body.append(rest)
    body.append(0)
    return bytes(body) + len(body).to_bytes(8, "big")
