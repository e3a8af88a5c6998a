"""The rules without a server: what is sent, how answers are read, when a call is repeated."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from windrow import Client, Complete, Fail, Invalid, NewItem, Release, Retry, Snooze, errors
from windrow._call import Call, Reply, lost, name, not_sent, path
from windrow._http1 import NotHttp, Reading, written
from windrow._json import encoded
from windrow._reading import read
from windrow._repeat import AWAY_S, EMPTY_S, Attempts, Missed, Rests
from windrow._slots import said
from windrow._sse import Lines
from windrow._verbs import enqueue, enqueue_slices
from windrow.answers import Item, Row, Work

OVERLOADED = Missed(errors.Overloaded("overloaded", "busy", retry_after=0.7), passes=True)


def test_waits_double_up_to_a_cap_and_stay_within_their_jitter() -> None:
    attempts = Attempts()
    waits = [attempts.after(not_sent("x"), 60.0, 1.0) for _ in range(9)]
    assert waits == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.0, 2.0]
    assert Attempts().after(lost("x"), 60.0, 0.0) == 0.01


def test_a_server_that_says_when_is_not_asked_before() -> None:
    assert Attempts().after(OVERLOADED, 60.0, 0.0) == 0.7
    end = Attempts().after(OVERLOADED, 0.7, 0.0)
    assert isinstance(end, errors.Overloaded)
    assert end.written == "no"


def test_what_was_once_lost_stays_unknown_whatever_follows() -> None:
    attempts = Attempts()
    attempts.after(lost("cut"), 60.0, 0.5)
    end = attempts.after(not_sent("refused"), 0.0, 0.5)
    assert isinstance(end, errors.Unreachable)
    assert end.written == "unknown"
    never = Attempts().after(not_sent("x"), 0.0, 0.5)
    assert isinstance(never, errors.Unreachable)
    assert never.written == "no"
    looked = Attempts(only_looks=True).after(lost("x"), 0.0, 0.5)
    assert isinstance(looked, errors.Unreachable)
    assert looked.written == "no"


def test_a_refusal_is_an_answer_and_without_an_id_the_first_attempt_stays_unknown() -> None:
    refused = Missed(errors.Conflict("changed", "somebody wrote it"))
    assert Attempts().after(refused, 60.0, 0.5) is refused.error
    for has_id, expected in ((True, "no"), (False, "unknown")):
        attempts = Attempts(has_id=has_id)
        attempts.after(lost("cut"), 60.0, 0.5)
        end = attempts.after(Missed(errors.Conflict("changed", "x")), 60.0, 0.5)
        assert isinstance(end, errors.Conflict)
        assert end.written == expected


def test_a_queue_that_is_empty_at_once_is_asked_less_and_less_until_it_waits() -> None:
    rests = Rests(EMPTY_S)
    empty = [rests.after_empty(0.0) for _ in range(8)]
    assert empty == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert rests.after_empty(20.0) == 0.0, "it waited by itself"
    assert rests.after_empty(0.004) == pytest.approx(0.006)
    rests.over()
    assert rests.after_empty(0.0) == 0.01, "there was something in between"


def test_a_server_that_is_away_is_asked_less_and_less_and_not_before_it_said() -> None:
    rests = Rests(AWAY_S)
    away, busy = errors.Unreachable("unreachable", "x"), OVERLOADED.error
    assert [rests.after_error(away) for _ in range(3)] == [0.05, 0.1, 0.2]
    assert [rests.after_error(busy) for _ in range(2)] == [0.7, 0.8]
    assert [rests.after_error(away) for _ in range(3)] == [1.6, 2.0, 2.0]


@pytest.mark.parametrize(
    ("code", "kind", "passes"),
    [
        ("lease_lost", errors.LeaseLost, False),
        ("not_found", errors.NotFound, False),
        ("invalid", errors.Invalid, False),
        ("key_in_use", errors.Conflict, False),
        ("queue_full", errors.Overloaded, False),
        ("overloaded", errors.Overloaded, True),
        ("stopping", errors.Unavailable, True),
        ("outcome_unknown", errors.Unavailable, True),
        ("store_full", errors.Unavailable, False),
        ("what_a_newer_server_says", errors.WindrowError, False),
    ],
)
def test_a_code_says_what_was_meant(code: str, kind: type, passes: bool) -> None:
    body = b'{"code":"%s","detail":"so","retry_after_ms":1500}' % code.encode()
    call: Call[None] = Call("POST", "/x", lambda _: None)
    missed = call.answered(Reply(503, {}, body))
    assert missed is not None
    assert type(missed.error) is kind
    assert (missed.passes, missed.error.retry_after) == (passes, 1.5)
    assert missed.unknown == (code == "outcome_unknown")


def test_an_answer_of_something_in_between_is_not_taken_for_the_servers() -> None:
    call: Call[None] = Call("POST", "/x", lambda _: None)
    gateway = call.answered(Reply(502, {"retry-after": "3"}, b"<html>"))
    assert gateway is not None
    assert (gateway.passes, gateway.unknown, gateway.error.retry_after) == (True, True, 3.0)
    teapot = call.answered(Reply(418, {}, b""))
    assert teapot is not None
    assert (teapot.passes, teapot.error.code) == (False, "http_418")


def test_an_answer_that_cannot_be_read_was_written() -> None:
    call = Call("POST", "/x", lambda reply: reply.json()["id"])
    missed = call.answered(Reply(200, {}, b"{}"))
    assert isinstance(missed, Missed)
    assert missed.error.written == "yes"


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", True),
    (CHUNKED + b"2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n", True),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", True),
    (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello", False),
]


@pytest.mark.parametrize(("data", "keeps_open"), ANSWERS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_an_answer_is_read_however_it_is_cut(data: bytes, keeps_open: bool, step: int) -> None:
    reading, body = Reading(), b""
    for at in range(0, len(data), step):
        body += reading.feed(data[at : at + step])
    assert (reading.status, body, reading.done) == (200, b"hello", True)
    assert reading.keeps_open == keeps_open


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reading = Reading()
    assert reading.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") + reading.feed(b"lo") == b"hello"
    assert not reading.done
    reading.closed()
    assert reading.done


def test_an_answer_that_breaks_off_is_no_answer() -> None:
    for data in (b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"):
        reading = Reading()
        reading.feed(data)
        with pytest.raises(NotHttp):
            reading.closed()
    with pytest.raises(NotHttp):
        Reading().feed(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def test_no_header_can_be_smuggled_in() -> None:
    with pytest.raises(ValueError, match="idempotency-key"):
        written("POST", "/", [("idempotency-key", "a\r\nx: y")], b"")


def test_events_are_read_and_the_place_moves_only_with_whole_ones() -> None:
    lines = Lines()
    assert lines.feed(b": windrow\nid: 7:1\n\nevent: item\nid: 7:2\nda") == []
    assert lines.last_id == "7:1"
    [(message, place)] = lines.feed(b'ta: {"a":\ndata: 1}\r\n\r\n')
    assert (message.event, message.data, place) == ("item", '{"a":\n1}', "7:2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:7117", "http://127.0.0.1:7117"),
        ("http://localhost/", "http://localhost:7117"),
        ("queue.example:80", "http://queue.example:80"),
        ("http://[::1]:9", "http://[::1]:9"),
        ("https://queue.example", "https://queue.example:443"),
        ("http://proxy/queue/", "http://proxy:7117/queue"),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: str) -> None:
    assert Client(text).server == expected


@pytest.mark.parametrize("text", ["ftp://x", "http://u:p@x", "http://x:99999", "http://", "a b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a server"):
        Client(text)


@pytest.mark.parametrize("text", ["http://u:hunter2@x", "u:hunter2@[x", "u:hunter2\u2100@x"])
def test_what_stands_before_a_host_is_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"…@\[?x' is not the address") as why:
        Client(text)
    assert "hunter2" not in str(why.value)


def test_a_token_is_not_shown_and_fits_a_header() -> None:
    assert "hunter2" not in repr(Client(token="hunter2")) + repr(Client(token="hunter2")._options)
    for bad in ("two words", "line\nbreak", "ümlaut"):
        with pytest.raises(ValueError, match="printable ASCII"):
            Client(token=bad)


def test_names_stay_whole_in_a_path() -> None:
    assert name("a/b?c#d %é..") == "a%2Fb%3Fc%23d%20%25%C3%A9%2E%2E"
    assert path("queue", status="a,b", limit=None, from_=3) == "/queue?status=a%2Cb&from=3"
    with pytest.raises(Invalid):
        name("")


def test_bytes_go_as_base64_and_what_json_cannot_hold_is_refused_before_it_is_sent() -> None:
    assert NewItem(b"\x00\x01").wire() == {"payload_base64": "AAE="}
    for bad in (object(), float("nan"), {1, 2}):
        with pytest.raises(Invalid) as why:
            enqueue("q", bad)
        assert why.value.written == "no"


def test_times_need_a_zone_and_waits_may_be_timedeltas() -> None:
    at = datetime(2026, 11, 17, 2, 30, tzinfo=timezone.utc)
    assert Snooze(at).wire["until"] == "2026-11-17T02:30:00.000+00:00"
    assert Release(delay=timedelta(minutes=1)).wire["delay_ms"] == 60_000
    assert Retry("x", delay=0.25).wire["delay_ms"] == 250
    with pytest.raises(Invalid):
        Snooze(datetime(2026, 11, 17))


def test_an_error_keeps_its_end_if_it_is_too_long() -> None:
    outcome = Fail("ü" * 5000 + "the end")
    assert len(outcome.wire["error"].encode()) <= 4096
    assert outcome.wire["error"].endswith("the end")


def test_an_exception_says_what_and_where() -> None:
    try:
        raise KeyError("width")
    except KeyError as why:
        text = said(why)
    assert text.startswith(
        "KeyError: 'width'\n  at test_an_exception_says_what_and_where (test_core"
    )


def test_outcomes_leave_out_what_is_as_by_default() -> None:
    assert Complete().wire == {"outcome": "complete"}
    assert Fail("x", class_="gone").wire == {"outcome": "fail", "error": "x", "class": "gone"}


def test_many_items_go_in_slices() -> None:
    sizes = [
        len(call.body or b"") for call in enqueue_slices((NewItem(1) for _ in range(2500)), "q")
    ]
    assert len(sizes) == 3
    large = [NewItem("x" * 6_000_000) for _ in range(5)]
    bodies = [call.body or b"" for call in enqueue_slices(large, "q")]
    assert len(bodies) == 3
    assert all(len(body) <= 16 * 1024 * 1024 for body in bodies)


def test_each_slice_has_an_id_of_its_own_that_stays() -> None:
    calls = list(enqueue_slices([NewItem(1)] * 1001, "q"))
    ids = [call.request_id for call in calls]
    assert len(set(ids)) == 2
    assert None not in ids


def test_what_a_newer_server_adds_is_passed_over() -> None:
    base = {
        "id": "1", "tenant": "t", "queue": "q", "kind": "k", "op": "o", "stage": "s",
        "attempt": 1, "priority": 5, "created_at": "2026-11-17T02:30:00.000Z", "new": {"x": 1},
    }  # fmt: skip
    work = read(Work, {**base, "input_base64": "AAE="})
    assert work.input == b"\x00\x01"
    assert work.created_at == datetime(2026, 11, 17, 2, 30, tzinfo=timezone.utc)
    shown = {**base, "attempts": 1, "status": "failed", "error": {"class": "gone", "message": "m"}}
    for error in (read(Row, shown).error, read(Item, shown).error):
        assert error is not None
        assert (error.class_, error.message) == ("gone", "m")


def test_a_body_keeps_its_letters() -> None:
    assert encoded({"ü": 1}) == '{"ü":1}'.encode()
