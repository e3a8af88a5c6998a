"""Outcomes as the bodies that tell them: one, or several for a large split.

Decides how much one settle says. Sees an outcome alone, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._json import encoded
from .errors import Invalid
from .outcomes import Outcome

#: A settle is not larger than this; the server takes 16 MiB.
SETTLE_BYTES_MAX = 4 * 1024 * 1024
#: The items of a settle, and the children of one item in it.
SETTLE_ITEMS_MAX = 1000


def parts_of(outcome: Outcome) -> list[bytes]:
    """An outcome as JSON; a split of many or large children as several, of which all but the last
    keep the lease."""
    children = outcome.wire.get("children")
    if not children:
        return [encoded(outcome.wire)]
    slices = list(_slices(map(encoded, children)))
    if len(slices) > 1 and (ordinal := _twice(children)) is not None:
        # The queue cannot tell: what it knows from an earlier slice it takes for a repeat.
        raise Invalid("invalid", f"the ordinal {ordinal} is there twice; each child has its own")
    last = {name: value for name, value in outcome.wire.items() if name != "children"}
    # What goes to the next stage is said once, with the last of them.
    before = {name: value for name, value in last.items() if not name.startswith("output")}
    before["more"] = True
    return [*(_body(before, one) for one in slices[:-1]), _body(last, slices[-1])]


def _slices(children: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Children in as few slices as may be. One that is too large by itself goes alone, and the
    server says so."""
    found: list[bytes] = []
    size = 0
    for child in children:
        # With the comma.
        size += len(child) + 1
        if found and (len(found) == SETTLE_ITEMS_MAX or size > SETTLE_BYTES_MAX):
            yield found
            found, size = [], len(child) + 1
        found.append(child)
    yield found


def _twice(children: Iterable[dict[str, Any]]) -> int | None:
    """An ordinal that two of these children have."""
    seen: set[int] = set()
    for child in children:
        ordinal = child.get("ordinal")
        # What is no number the server refuses, and here it could not be compared.
        if isinstance(ordinal, int):
            if ordinal in seen:
                return ordinal
            seen.add(ordinal)
    return None


def _body(rest: dict[str, Any], children: list[bytes]) -> bytes:
    return encoded(rest)[:-1] + b',"children":[' + b",".join(children) + b"]}"
