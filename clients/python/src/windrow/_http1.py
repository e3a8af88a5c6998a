"""HTTP/1.1 as far as a client of one server needs it, without any I/O.

`written` turns a request into bytes; `Reading` takes the bytes of one answer as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable

HEAD_MAX = 64 * 1024


class NotHttp(Exception):
    """The other side does not speak HTTP, or stopped in the middle of it."""


def written(
    method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None
) -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        # A line break in a value would begin a header of somebody else's making.
        if any(ord(letter) < 0x20 or ord(letter) > 0x7E for letter in value):
            raise ValueError(f"the header {name} holds what a header cannot hold")
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return head + body if body else head


class Reading:
    """One answer, fed as it arrives."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        #: The head is there.
        self.has_head = False
        #: The answer is whole.
        self.done = False
        #: Another request may follow on this connection.
        self.keeps_open = False
        self._buffer = bytearray()
        #: Bytes of the body, or of the chunk, that are still to come; None until the end.
        self._left: int | None = 0
        self._chunked = False
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes:
        """Takes bytes, and gives back those of the body among them."""
        if not self.has_head:
            self._buffer += data
            if not self._read_head():
                return b""
            data = bytes(self._buffer)
            self._buffer.clear()
        if self._chunked:
            return self._read_chunks(data)
        if self._left is None:
            return data
        if len(data) > self._left:
            self.keeps_open = False
            data = data[: self._left]
        self._left -= len(data)
        self.done = self._left == 0
        return data

    def closed(self) -> None:
        """The other side closed the connection."""
        self.keeps_open = False
        if self.has_head and self._left is None:
            self.done = True
        if not self.done:
            raise NotHttp("the connection was closed in the middle of the answer")

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_MAX:
                    raise NotHttp("the head of the answer has no end")
                return False
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            version, _, rest = lines[0].partition(" ")
            code = rest[:3]
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise NotHttp("what answers does not speak HTTP")
            self.status = int(code)
            if self.status >= 200:
                break
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.has_head = True
        self._read_framing(version)
        return True

    def _read_framing(self, version: str) -> None:
        connection = self.headers.get("connection", "").lower()
        self.keeps_open = version == "HTTP/1.1" and "close" not in connection
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self.done = True
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked = True
        elif length is not None:
            if not length.isdigit():
                raise NotHttp("the length of the answer is not a number")
            self._left = int(length)
            self.done = self._left == 0
        else:
            self._left = None
            self.keeps_open = False

    def _read_chunks(self, data: bytes) -> bytes:
        self._buffer += data
        pieces: list[bytes] = []
        while not self.done:
            if self._left:
                piece = bytes(self._buffer[: self._left])
                if not piece:
                    break
                del self._buffer[: len(piece)]
                self._left -= len(piece)
                pieces.append(piece)
                continue
            line = self._take_line()
            if line is None:
                break
            if self._in_trailer:
                self.done = line == b""
            elif line:
                self._left = self._chunk_size(line)
                self._in_trailer = self._left == 0
        return b"".join(pieces)

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        try:
            return int(line.split(b";")[0], 16)
        except ValueError:
            raise NotHttp("the answer comes in pieces that have no size") from None
