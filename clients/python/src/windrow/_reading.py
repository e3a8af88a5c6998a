"""Reads JSON into dataclasses.

A field that is not there has its default; one that the class does not know is passed over, so
that a newer server can say more. A field called `class_` is `class` on the wire.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, cast

T = TypeVar("T")

_Convert = Callable[[Any], Any]
_Step = tuple[str, str, "_Convert | None", bool]

#: Marks a field whose bytes arrive as `NAME_base64` where they are not JSON.
BYTES = {"windrow.bytes": True}


def read(kind: type[T], data: Any) -> T:
    """An instance of a dataclass from a JSON object."""
    values: dict[str, Any] = {}
    for name, key, convert, may_be_bytes in _steps(cast("Any", kind)):
        if key in data:
            value = data[key]
            values[name] = value if convert is None or value is None else convert(value)
        if may_be_bytes and data.get(key + "_base64") is not None:
            values[name] = base64.b64decode(data[key + "_base64"])
    return kind(**values)


def read_list(kind: type[T], data: Any) -> list[T]:
    """A list of them."""
    return [read(kind, each) for each in data]


def time(text: str | int | float) -> datetime:
    """A time as the server shows it."""
    if not isinstance(text, str):
        return datetime.fromtimestamp(text / 1000).astimezone()
    # Python 3.10 does not know the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@functools.cache
def _steps(kind: Any) -> tuple[_Step, ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        (
            field.name,
            field.name.rstrip("_"),
            _convert(hints[field.name]),
            "windrow.bytes" in field.metadata,
        )
        for field in dataclasses.fields(kind)
        if field.init
    )


def _convert(hint: Any) -> _Convert | None:
    """How a value becomes what a field is declared as; None if it is that already."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [_convert(part) for part in parts if part is not type(None)]
        return some[0] if len(some) == 1 else None
    if origin is list:
        each = _convert(parts[0])
        return None if each is None else lambda value: [each(one) for one in value]
    if hint is datetime:
        return time
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return functools.partial(read, hint)
    return None
