"""Following events: what both clients decide about the stream, without any I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ._call import Call, Reply, look
from ._reading import read
from ._sse import Lines
from .answers import Event

#: Something comes every few seconds; after so many without anything the line is dead.
SILENCE_S = 30.0
ACCEPT = "text/event-stream"


class Following:
    """One stream of events, over as many connections as it takes."""

    def __init__(self, where: str, last_event_id: str | None) -> None:
        self._where = where
        self._lines = Lines(last_event_id)

    def call(self) -> Call[None]:
        """The request that goes on where the stream stands."""
        call = look(self._where, _nothing)
        place = self._lines.last_id
        if place is None:
            return call
        return Call("GET", self._where, _nothing, headers=(("last-event-id", place),))

    def begins(self) -> None:
        """A new connection: what the last one left unfinished comes again."""
        self._lines = Lines(self._lines.last_id)

    def feed(self, data: bytes) -> Iterator[Event]:
        for message, place in self._lines.feed(data):
            if message.event == "reset":
                yield Event("reset", place)
            elif message.event == "item":
                yield read(Event, {**json.loads(message.data), "place": place})


def _nothing(reply: Reply) -> None:
    return None
