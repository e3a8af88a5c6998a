"""Outcomes: how the work on an item ended.

A handler returns one, or raises one of those that can be raised; `settle` takes them as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from ._json import Seconds, blank, json_field, milliseconds, moment
from .items import Child, NewItem

ErrorClass = Literal["other", "gone", "bad_data", "resource", "infrastructure", "rate_limit"]

#: Most bytes of an error that an item keeps.
ERROR_BYTES_MAX = 4096


class Outcome:
    """The base of all outcomes. `wire` is what goes to the server, but for the item's id."""

    wire: dict[str, Any]

    def __repr__(self) -> str:
        said = ", ".join(
            f"{name}={value!r}" for name, value in self.wire.items() if name != "outcome"
        )
        return f"{type(self).__name__}({said})"


class Complete(Outcome):
    """The stage is done: on to the next stage with the `output`, or completed with the `result`.

    `spawn` are items, each with its queue, that are enqueued in the same commit.
    """

    def __init__(
        self, result: Any = None, *, output: Any = None, spawn: Iterable[NewItem] = ()
    ) -> None:
        spawned = [item.wire() for item in spawn]
        self.wire = blank(
            outcome="complete",
            **json_field("result", result),
            **json_field("output", output),
            spawn=spawned or None,
        )


class Split(Outcome):
    """The work is in these children; the item goes on when all of them have ended.

    With `more`, further children follow in another settle, and the lease is kept until then.
    With `on_gaps` "stop", failed children end the item.
    """

    def __init__(
        self,
        children: Iterable[Child],
        *,
        more: bool = False,
        on_gaps: Literal["continue", "stop"] | None = None,
        output: Any = None,
    ) -> None:
        self.wire = blank(
            outcome="split",
            children=[child.wire() for child in children],
            more=more or None,
            on_gaps=on_gaps,
            **json_field("output", output),
        )


class Signal(Outcome, Exception):
    """An outcome that can also be raised."""


class Retry(Signal):
    """It went wrong and may be tried again, after `delay` at least; failed if no try is left."""

    def __init__(
        self, error: str, *, class_: ErrorClass | None = None, delay: Seconds | None = None
    ) -> None:
        Exception.__init__(self, error)
        self.wire = blank(
            outcome="retry", error=_cut(error), class_=class_, delay_ms=milliseconds(delay)
        )


class Fail(Signal):
    """It went wrong for good."""

    def __init__(self, error: str, *, class_: ErrorClass | None = None) -> None:
        Exception.__init__(self, error)
        self.wire = blank(outcome="fail", error=_cut(error), class_=class_)


class Skip(Signal):
    """There is nothing to do in this stage."""

    def __init__(self, reason: str | None = None) -> None:
        Exception.__init__(self, reason)
        self.wire = blank(outcome="skip", reason=reason)


class Release(Signal):
    """Back in line, after `delay` at least. Costs no attempt."""

    def __init__(self, *, delay: Seconds | None = None) -> None:
        Exception.__init__(self)
        self.wire = blank(outcome="release", delay_ms=milliseconds(delay))


class Snooze(Signal):
    """Back in line at that time. Costs no attempt."""

    def __init__(self, until: datetime) -> None:
        Exception.__init__(self, until)
        self.wire = blank(outcome="snooze", until=moment(until))


def _cut(text: str) -> str:
    """As much of an error as an item keeps; the end of it, where tracebacks say what it was."""
    text = text or "no message"
    data = text.encode("utf-8", "replace")
    if len(data) <= ERROR_BYTES_MAX:
        return text
    return "…" + data[-(ERROR_BYTES_MAX - 8) :].decode("utf-8", "ignore")
