"""What a worker has in hand: when it may claim, and whose place is taken."""

from __future__ import annotations

from typing import Any

from windrow import Job
from windrow._hand import Hand
from windrow._reading import read
from windrow.answers import Work


def job(id: str, lease: str = "lease") -> Job[Any]:
    work = {
        "id": id, "tenant": "t", "queue": "q", "kind": "k", "op": "o", "stage": "s",
        "attempt": 1, "priority": 5, "created_at": "2026-11-17T02:30:00.000Z",
    }  # fmt: skip
    return Job(read(Work, work), lease)


def held(*jobs: Job[Any], limit: int = 1) -> Hand:
    """A hand with these jobs in it."""
    hand = Hand(limit, 1, 30.0)
    assert hand.add("lease", jobs)
    return hand


def test_a_handler_whose_item_is_lost_keeps_its_place_until_it_ends() -> None:
    """Others were claimed for its place, and lay there while nobody could work on them."""
    one = job("1")
    hand = held(one)
    assert hand.begin(one)
    assert hand.not_renewed(hand._leases["lease"], lost=True) == [one]
    assert one.cancelled
    assert not hand._may_claim(), "nobody could work on what it would get"
    assert not hand.end(one, [b"{}"])
    hand.handled(1)
    assert hand.wait_for_room() == 1


def test_a_handler_that_has_settled_early_keeps_its_place_until_it_ends() -> None:
    one = job("1")
    hand = held(one)
    assert hand.begin(one)
    assert hand.end(one, [b"{}"])
    hand.settled([one])
    assert not hand._may_claim()
    hand.handled(1)
    assert hand.wait_for_room() == 1


def test_what_is_lost_before_it_begins_takes_no_place() -> None:
    one, two = job("1"), job("2")
    hand = held(one, two, limit=2)
    assert hand.renewed(hand._leases["lease"], 0.0, ["2"]) == [one]
    assert not hand.begin(one)
    assert hand.begin(two)
    assert hand.wait_for_room() == 1
