"""A job: one item in the hands of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from .answers import Progress, Work
from .errors import LeaseLost
from .outcomes import Outcome

T = TypeVar("T")


class Job(Generic[T]):
    """One item, as a handler gets it.

    `payload` is what `decode` made of it; without that it is JSON, or bytes. `input` is what the
    stage before put out. Everything else about the item is in `work`.
    """

    payload: T

    def __init__(self, work: Work, lease: str) -> None:
        self.work = work
        self.lease = lease
        self.id = work.id
        self._state = "waiting"
        self._gone = False
        self._why = ""
        self._lost: threading.Event | None = None
        self._on_lost: Callable[[], None] | None = None
        self._report: Callable[[Job[Any], Progress], None] | None = None
        self._settle: Callable[[Job[Any], Outcome], None] | None = None

    @property
    def queue(self) -> str:
        return self.work.queue

    @property
    def tenant(self) -> str:
        return self.work.tenant

    @property
    def kind(self) -> str:
        return self.work.kind

    @property
    def op(self) -> str:
        return self.work.op

    @property
    def stage(self) -> str:
        return self.work.stage

    @property
    def key(self) -> str | None:
        return self.work.key

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.work.attempt

    @property
    def metadata(self) -> Any:
        return self.work.metadata

    @property
    def input(self) -> Any:
        """What the stage before put out; None in the first stage."""
        return self.work.input

    @property
    def created_at(self) -> datetime:
        return self.work.created_at

    @property
    def is_last_stage(self) -> bool:
        route = self.work.route
        return not route or route[-1] == self.work.stage

    @property
    def cancelled(self) -> bool:
        """The item is not ours any more: cancelled, lost, or handed back because we stop.

        Drop the work; whatever its outcome is, nobody will hear of it.
        """
        return self._gone

    def check(self) -> None:
        """Raises `LeaseLost` if the item is not ours any more. For long loops."""
        if self.cancelled:
            raise LeaseLost("lease_lost", self._why)

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the item is not ours any more, or the time is over. Says whether it is so."""
        if self._lost is None:
            self._lost = threading.Event()
        if self.cancelled:
            return True
        return self._lost.wait(timeout)

    def progress(self, current: int, total: int = 0, message: str = "") -> None:
        """Says how far it is, for whoever looks. Returns at once; the last word counts."""
        if self._report is not None:
            self._report(self, Progress(current, total, message))

    def settle(self, outcome: Outcome) -> None:
        """Settles it before the handler ends; what the handler says of it later is passed over."""
        if self._settle is not None:
            self._settle(self, outcome)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, queue={self.queue!r}, attempt={self.attempt})"

    def _lose(self, why: str) -> None:
        self._gone, self._why = True, why
        if self._lost is not None:
            self._lost.set()
        if self._on_lost is not None:
            self._on_lost()
