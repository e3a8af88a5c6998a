"""Repeats: what follows an attempt that brought no answer.

Decides whether to try again, after how long, and if not, what the caller is told. Sees what
happened and how much time is left; neither waits nor sends. A call carries the same request id
in all its attempts, so that repeating one that was done is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import WindrowError

FIRST_S = 0.02
LAST_S = 2.0
#: How long a worker rests at first and at most when there was nothing to claim.
EMPTY_S = (0.01, 0.5)
#: The same when the server did not answer, or had too much to do.
AWAY_S = (0.05, 2.0)


@dataclass(frozen=True)
class Missed:
    """Why an attempt brought no answer that ends the call."""

    error: WindrowError
    #: It may pass, so that asking again makes sense.
    passes: bool = False
    #: This attempt may have been done.
    unknown: bool = False


@dataclass
class Attempts:
    """The attempts of one call."""

    #: It only looks, so that nothing of it can be written.
    only_looks: bool = False
    #: The server knows a repeat of it by its request id.
    has_id: bool = True
    failed: int = field(default=0, init=False)
    unknown: bool = field(default=False, init=False)

    def after(self, missed: Missed, left: float, jitter: float) -> float | WindrowError:
        """Seconds to wait before the next attempt, or the error that ends the call.

        `left` are the seconds that the call still has. `jitter` is anywhere from 0 to 1: clients
        that lost their server together come back one by one.
        """
        if not missed.passes:
            # A refusal of a repeat that the server knows is the answer to the first attempt too.
            return self._told(missed.error, self.unknown and not self.has_id)
        self.unknown = self.unknown or missed.unknown
        doubled: float = min(FIRST_S * 2 ** min(self.failed, 16), LAST_S)
        self.failed += 1
        asked = missed.error.retry_after
        # Not before it was asked for, and not everybody at that moment.
        wait = doubled * (0.5 + jitter / 2) if asked is None else asked + doubled * jitter
        if wait < left:
            return wait
        return self._told(missed.error, self.unknown)

    def _told(self, error: WindrowError, unknown: bool) -> WindrowError:
        if self.only_looks:
            error.written = "no"
        elif unknown:
            error.written = "unknown"
        return error


class Rests:
    """How long a worker rests before it asks again for what it did not get: longer each time."""

    def __init__(self, bounds: tuple[float, float]) -> None:
        self._first, self._last = bounds
        self._next = self._first

    def after_empty(self, waited: float) -> float:
        """There was nothing, and the server has waited so long for something."""
        if waited >= self._next:
            self.over()
            return 0.0
        return self._longer() - waited

    def after_error(self, why: WindrowError) -> float:
        """There was no answer, or not now."""
        return max(self._longer(), why.retry_after or 0.0)

    def over(self) -> None:
        """It got something."""
        self._next = self._first

    def _longer(self) -> float:
        rest = self._next
        self._next = min(rest * 2, self._last)
        return rest
