"""A call: one thing to ask of the server, as often as it takes.

Says what is sent and how an answer is read. Sends nothing itself: `client.py` and `aio.py` do.
"""

from __future__ import annotations

import functools
import inspect
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from ._json import encoded
from ._reading import read, read_list
from ._repeat import Attempts, Missed
from .errors import Invalid, Overloaded, Unavailable, Unreachable, WindrowError, Written, by_code

T = TypeVar("T")
K = TypeVar("K")

BASE = "/api/v1"
#: What these codes say may pass, and nothing of the request was done, or that is not known.
_PASSING = {"overloaded", "stopping", "store_failed", "timeout", "outcome_unknown"}


@dataclass(frozen=True)
class Reply:
    """What came back. Names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Call(Generic[T]):
    """One thing to ask, and how its answer is read."""

    method: str
    #: Below `/api/v1`, with its query.
    path: str
    read: Callable[[Reply], T]
    body: bytes | None = None
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    #: By which the server knows a repeat; None for what is harmless to repeat.
    request_id: str | None = None
    #: Seconds that the server may think about it on purpose.
    wait: float = 0.0

    def attempts(self) -> Attempts:
        return Attempts(only_looks=self.method == "GET", has_id=self.request_id is not None)

    def answered(self, reply: Reply) -> T | Missed:
        """What an answer says."""
        if 200 <= reply.status < 300:
            try:
                return self.read(reply)
            except (ValueError, TypeError, KeyError, AttributeError) as why:
                said = f"the server's answer is not understood: {why}"
                written: Written = "no" if self.method == "GET" else "yes"
                return Missed(
                    WindrowError("not_understood", said, status=reply.status, written=written)
                )
        return _missed(reply)


def _missed(reply: Reply) -> Missed:
    after = _seconds(reply.headers.get("retry-after"))
    try:
        problem = reply.json()
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, TypeError, KeyError):
        return _somebody_else(reply, after)
    if problem.get("retry_after_ms") is not None:
        after = problem["retry_after_ms"] / 1000
    error = by_code(code, detail, status=reply.status, retry_after=after)
    return Missed(error, passes=code in _PASSING, unknown=code == "outcome_unknown")


def _somebody_else(reply: Reply, after: float | None) -> Missed:
    """An answer of something between us and the server."""
    status = reply.status
    code, detail = f"http_{status}", f"something that is not Windrow answered {status}"
    if status == 429:
        error: WindrowError = Overloaded(code, detail, status=status, retry_after=after)
        return Missed(error, passes=True)
    if status in (502, 503, 504):
        error = Unavailable(code, detail, status=status, retry_after=after, written="unknown")
        return Missed(error, passes=True, unknown=True)
    return Missed(WindrowError(code, detail, status=status))


def not_sent(why: str) -> Missed:
    """The request did not leave, or not whole."""
    return Missed(Unreachable("unreachable", why), passes=True)


def not_trusted(why: str) -> Missed:
    """The server's certificate is not one that we trust, which no repeat changes."""
    return Missed(Unreachable("unreachable", why))


def lost(why: str) -> Missed:
    """It left, and no answer came back."""
    return Missed(Unreachable("unreachable", why, written="unknown"), passes=True, unknown=True)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdigit() else None


def name(text: str, what: str = "queue") -> str:
    """A name as a part of a path."""
    if not text:
        raise Invalid("invalid", f"{what}: must not be empty")
    # A full stop alone would be a step up the path.
    return quote(text, safe="").replace(".", "%2E")


def path(*parts: str, **query: Any) -> str:
    """A path below the base, with what follows the question mark."""
    said = {key.rstrip("_"): value for key, value in query.items() if value is not None}
    return "/" + "/".join(parts) + (f"?{urlencode(said)}" if said else "")


def look(where: str, reads: Callable[[Reply], T]) -> Call[T]:
    """A call that changes nothing."""
    return Call("GET", where, reads)


def post(
    where: str,
    reads: Callable[[Reply], T],
    body: Any = None,
    *,
    method: str = "POST",
    request_id: str | None = None,
    wait: float = 0.0,
    headers: tuple[tuple[str, str], ...] = (),
) -> Call[T]:
    """A call that changes something."""
    data = b"" if body is None else encoded(body)
    return Call(method, where, reads, data, headers=headers, request_id=request_id, wait=wait)


def named(request_id: str | None) -> str:
    """The caller's id of a request, or a new one. Made once, and sent with every attempt."""
    return request_id if request_id is not None else str(uuid.uuid4())


def one(kind: type[K]) -> Callable[[Reply], K]:
    return lambda reply: read(kind, reply.json())


def many(kind: type[K]) -> Callable[[Reply], list[K]]:
    return lambda reply: read_list(kind, reply.json())


def shown_as(method: Callable[..., Any], make: Callable[..., Any]) -> None:
    """Gives a method the name, the words and the parameters of its verb."""
    functools.update_wrapper(method, make)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(make)
    signature = signature.replace(parameters=[own, *signature.parameters.values()])
    method.__signature__ = signature  # type: ignore[attr-defined]
    del method.__wrapped__  # type: ignore[attr-defined]
