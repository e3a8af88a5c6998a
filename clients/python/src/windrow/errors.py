"""Errors: what the server said no to, or why there was no answer.

Every error answers "what now?": its `code` has a page in the documentation (docs/errors), and
`written` says whether the change that was asked for happened.
"""

from __future__ import annotations

from typing import Literal

Written = Literal["yes", "no", "unknown"]


class WindrowError(Exception):
    """The base of all errors of this package.

    `code` is the stable name of the error, `detail` what it was this time, `status` the HTTP
    status if there was an answer, `retry_after` the seconds after which asking again may help.
    `written` is "no" if nothing was changed, "unknown" if nobody knows, and "yes" if the change
    was made but its answer cannot be read.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        written: Written = "no",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.written: Written = written
        self.retry_after = retry_after

    def __str__(self) -> str:
        unknown = "; it is not known whether it was done" if self.written == "unknown" else ""
        return f"{self.code}: {self.detail}{unknown}"


class Invalid(WindrowError):
    """Something in the request is not allowed, or cannot be read. Mend it; do not repeat it."""


class Unauthorized(WindrowError):
    """A token is needed, or this one is wrong, expired or revoked."""


class Forbidden(WindrowError):
    """The role of this token does not suffice."""


class NotFound(WindrowError):
    """There is nothing here, or it is not yours."""


class LeaseLost(WindrowError):
    """The lease does not hold this any more. Drop the work."""


class Conflict(WindrowError):
    """Where the item stands does not allow that; `code` says why."""


class Overloaded(WindrowError):
    """The server, or the queue, has too much. Wait `retry_after`."""


class Unavailable(WindrowError):
    """The server cannot do it now. Try again later; mind `written`."""


class Unreachable(Unavailable):
    """No answer came. With `written` "unknown", repeat it with the same request id."""


_INVALID = """invalid malformed method_not_allowed too_large unsupported_type expectation_failed
    range_not_satisfiable hash_mismatch no_such_stage headers_too_large"""
_CONFLICT = """wrong_status already_done still_live not_resettable key_in_use under_cancelled
    not_a_root request_reused blob_missing changed offset_mismatch"""
_UNAVAILABLE = "store_full store_failed outcome_unknown stopping timeout"

_CLASSES: dict[str, type[WindrowError]] = {
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "misdirected_host": Forbidden,
    "not_found": NotFound,
    "lease_lost": LeaseLost,
    "overloaded": Overloaded,
    "queue_full": Overloaded,
    **dict.fromkeys(_INVALID.split(), Invalid),
    **dict.fromkeys(_CONFLICT.split(), Conflict),
    **dict.fromkeys(_UNAVAILABLE.split(), Unavailable),
}


def by_code(
    code: str,
    detail: str,
    *,
    status: int | None = None,
    retry_after: float | None = None,
) -> WindrowError:
    """The error that a code means."""
    kind = _CLASSES.get(code, WindrowError)
    written: Written = "unknown" if code == "outcome_unknown" else "no"
    return kind(code, detail, status=status, written=written, retry_after=retry_after)
