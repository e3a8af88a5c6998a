"""What goes into the bodies of requests."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

from .errors import Invalid

#: A number of seconds, or a `timedelta`.
Seconds = float | timedelta


def blank(**fields: Any) -> dict[str, Any]:
    """Without what is as by default. `class_` is `class` on the wire."""
    return {name.rstrip("_"): value for name, value in fields.items() if value is not None}


def json_field(name: str, value: Any) -> dict[str, Any]:
    """A value as JSON, or bytes as base64 under the name for that."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}
    return {name: value}


def seconds(value: Seconds) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except (TypeError, ValueError) as why:
        what = f"a time is a number of seconds, or a timedelta, and not {value!r}"
        raise Invalid("invalid", what) from why


def milliseconds(value: Seconds | None) -> int | None:
    return None if value is None else round(seconds(value) * 1000)


def moment(value: datetime | None) -> str | None:
    """A time as the wire has it."""
    if value is None:
        return None
    if value.tzinfo is None:
        raise Invalid("invalid", "a time without a zone can be any of many; give it one")
    return value.isoformat(timespec="milliseconds")


def encoded(body: Any) -> bytes:
    """A body as bytes. What JSON cannot hold is refused before anything is sent."""
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as why:
        raise Invalid("invalid", f"it cannot be written as JSON: {why}") from why
