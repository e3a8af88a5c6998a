"""Splits of any size: how they are cut, and what the server makes of the slices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving import Proxy
from windrow import Child, Client, Complete, Invalid, Job, Split, worker
from windrow._parts import SETTLE_BYTES_MAX, parts_of

KIB = 1024


def slices(split: Split) -> list[Any]:
    return [json.loads(part) for part in parts_of(split)]


def test_what_one_settle_holds_is_not_cut() -> None:
    for outcome in (Split([]), Split([Child(0, "page", "ü")], output=1), Complete({"a": 1})):
        [part] = parts_of(outcome)
        assert json.loads(part) == outcome.wire


def test_a_split_of_many_is_cut_by_their_number_and_keeps_the_lease_between() -> None:
    told = slices(Split([Child(n, "page") for n in range(2500)], on_gaps="stop", output={"n": 1}))
    seen = [(one["children"][0]["ordinal"], len(one["children"]), one.get("more")) for one in told]
    assert seen == [(0, 1000, True), (1000, 1000, True), (2000, 500, None)]
    assert [one.get("output") for one in told] == [None, None, {"n": 1}]
    assert [one["on_gaps"] for one in told] == ["stop"] * 3
    exact = slices(Split([Child(n, "page") for n in range(2000)], output=b"\x00"))
    assert [(len(one["children"]), "more" in one) for one in exact] == [(1000, True), (1000, False)]
    assert ["output_base64" in one for one in exact] == [False, True]


def test_no_slice_is_larger_than_a_settle_may_be_but_for_a_child_that_is_by_itself() -> None:
    # A page that is refused whatever we do stands among those that fit.
    sizes = [SETTLE_BYTES_MAX if n == 7 else 16 * KIB for n in range(900)]
    split = Split([Child(n, "page", b"x" * size) for n, size in enumerate(sizes)])
    parts = parts_of(split)
    told = [json.loads(part)["children"] for part in parts]
    assert [child for one in told for child in one] == split.wire["children"], "each once, in order"
    large = [one for one, part in zip(told, parts, strict=True) if len(part) > SETTLE_BYTES_MAX]
    assert [[child["ordinal"] for child in one] for one in large] == [[7]]
    # Base64 makes them a third larger: nearly nineteen MiB, which take five.
    assert len(parts) == 2 + 5, "as few as there may be"


def test_letters_are_counted_as_the_bytes_that_they_take() -> None:
    parts = parts_of(Split([Child(n, "page", "€" * 16 * KIB) for n in range(100)]))
    assert len(parts) == 2
    assert all(len(part) <= SETTLE_BYTES_MAX + 100 for part in parts)


def test_more_that_is_announced_stays_announced() -> None:
    told = slices(Split([Child(n, "page") for n in range(1500)], more=True))
    assert [one["more"] for one in told] == [True, True]


def test_an_ordinal_that_two_children_have_is_found_though_they_go_in_two_slices() -> None:
    children = [Child(n, "page") for n in range(1500)]
    children[1400].ordinal = 3
    with pytest.raises(Invalid, match="the ordinal 3 is there twice"):
        parts_of(Split(children))
    # Within one slice the server says so itself, and what is no ordinal it refuses.
    assert len(parts_of(Split(children[:4] + children[1400:1401]))) == 1
    children[3].ordinal = [1]  # type: ignore[assignment]
    assert len(parts_of(Split(children))) == 2


def settles(proxy: Proxy) -> int:
    return sum("/settle " in line for line in proxy.passed)


def test_a_split_that_is_larger_than_a_message_goes_in_slices(proxy: Proxy, queue: str) -> None:
    """A thousand pages of 25 KiB were sent at once, and the item failed."""
    with Client(proxy.url) as client:

        @worker(queue, client=client, kinds=["book"])
        def pages(job: Job[Any]) -> Split:
            # No JSON, so that it takes a third more.
            page = {"payload": b"x" * 16 * KIB, "metadata": "m" * 4000}
            return Split([Child(n, "page", **page) for n in range(1000)])  # type: ignore[arg-type]

        made = client.enqueue(queue, "book", kind="book")
        pages.run(drain=True)
        item = client.show(made.id)
        assert item.error is None
        assert item.children is not None
        assert (item.children.pending, item.children.more) == (1000, False)
        assert (pages.endings, settles(proxy)) == ({"split": 1}, 7)
        last = client.tree(made.id, from_=999).children
        assert [client.show(row.id).payload for row in last] == [b"x" * 16 * KIB]


def test_a_child_that_no_message_holds_fails_the_item_with_the_servers_words(
    client: Client, queue: str
) -> None:
    @worker(queue, client=client, kinds=["book"])
    def huge(job: Job[Any]) -> Split:
        return Split([Child(n, "page", "x" * (17 * KIB * KIB if n else 1)) for n in range(2)])

    made = client.enqueue(queue, "book", kind="book")
    huge.run(drain=True)
    item = client.show(made.id)
    assert item.error is not None
    assert (item.status, "too_large" in item.error.message) == ("failed", True)


def test_an_ordinal_that_is_there_twice_creates_no_child(client: Client, queue: str) -> None:
    """The second of the two was taken for a repeat and lost, and the item was completed."""

    @worker(queue, client=client, kinds=["book"])
    def twice(job: Job[Any]) -> Split:
        return Split([Child(n % 1200, "page", n) for n in range(1201)])

    made = client.enqueue(queue, "book", kind="book")
    twice.run(drain=True)
    item = client.show(made.id)
    assert item.error is not None
    assert "the ordinal 0 is there twice" in item.error.message
    assert (item.status, item.children) == ("failed", None)


def test_a_slice_in_the_middle_that_is_refused_fails_the_item(client: Client, queue: str) -> None:
    @worker(queue, client=client, kinds=["book"])
    def pages(job: Job[Any]) -> Split:
        return Split([Child(n, "page", "x" * (17 * KIB if n == 1100 else 1)) for n in range(2500)])

    made = client.enqueue(queue, "book", kind="book")
    pages.run(drain=True)
    item = client.show(made.id)
    assert item.error is not None
    assert (item.status, "at most 16384" in item.error.message) == ("failed", True)
    assert pages.endings == {"failed": 1}
