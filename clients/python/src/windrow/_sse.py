"""Server-sent events, read as they arrive, without any I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One event of a stream."""

    event: str
    data: str


class Lines:
    """Takes the bytes of a stream and gives out its events.

    `last_id` is the place in the stream: what to send as `Last-Event-ID` to go on from there.
    """

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._buffer = b""
        self._id = last_id
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[Message, str | None]]:
        """The events that are whole now, each with its place."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        found: list[tuple[Message, str | None]] = []
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if line:
                self._take(line)
                continue
            # The place moves on with the end of an event: one that was cut off comes again.
            self.last_id = self._id
            if self._data:
                message = Message(self._event or "message", "\n".join(self._data))
                found.append((message, self.last_id))
            self._event, self._data = "", []
        return found

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
