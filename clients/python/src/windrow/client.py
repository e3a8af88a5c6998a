"""The client for programs with threads."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import _verbs as v
from . import answers as a
from ._call import Call, Reply, lost, not_sent, not_trusted, shown_as
from ._following import ACCEPT, SILENCE_S, Following
from ._http1 import NotHttp, Reading
from ._json import Seconds, seconds
from ._options import Options
from ._repeat import Attempts, Missed
from .errors import WindrowError
from .items import NewItem

P = ParamSpec("P")
T = TypeVar("T")

_PIECE = 256 * 1024
#: The server closes a connection that was idle for 75 s; we stop using it before that.
_IDLE_S = 60.0


def _verb(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """A method that asks what a verb builds."""

    def ask(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.ask(make(*args, **kwargs))

    shown_as(ask, make)
    return ask


class Client:
    """The queue of a server. Threads may share one; it keeps connections open for them.

    `server` is such as `http://127.0.0.1:7117`, by default what WINDROW_SERVER says; `token` by
    default what WINDROW_TOKEN or the file WINDROW_TOKEN_FILE says. For https, `ca` is a file of
    certificates to trust instead of the system's, and `tls` a context of your own.

    One attempt may take `attempt` seconds, and a call with all its repeats `within`; a claim that
    waits has its wait on top of both.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        tls: ssl.SSLContext | None = None,
        attempt: Seconds = 30.0,
        within: Seconds = 60.0,
        idle_max: int = 16,
    ) -> None:
        self._options = Options.of(server, token, ca, tls, attempt, within, idle_max)
        self._pool = _Pool(self._options)

    @property
    def server(self) -> str:
        """Where the server is."""
        return self._options.server

    def close(self) -> None:
        """Closes the connections that are kept open. The client can be used again."""
        self._pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    enqueue = _verb(v.enqueue)
    claim = _verb(v.claim)
    renew = _verb(v.renew)
    progress = _verb(v.progress)
    progress_many = _verb(v.progress_many)
    settle = _verb(v.settle)
    payload_of = _verb(v.payload_of)
    list_page = _verb(v.list_page)
    show = _verb(v.show)
    tree = _verb(v.tree)
    explain = _verb(v.explain)
    history = _verb(v.history)
    stats = _verb(v.stats)
    retry = _verb(v.retry)
    cancel = _verb(v.cancel)
    delete = _verb(v.delete)
    prioritise = _verb(v.prioritise)
    pause = _verb(v.pause)
    resume = _verb(v.resume)
    queues = _verb(v.queues)
    settings = _verb(v.settings)
    configure = _verb(v.configure)
    schedules = _verb(v.schedules)
    schedule = _verb(v.schedule)
    put_schedule = _verb(v.put_schedule)
    delete_schedule = _verb(v.delete_schedule)
    run_schedule = _verb(v.run_schedule)
    preview_schedule = _verb(v.preview_schedule)
    operate = _verb(v.operate)
    operation = _verb(v.operation)
    operations = _verb(v.operations)
    cancel_operation = _verb(v.cancel_operation)
    put_blob = _verb(v.put_blob)
    get_blob = _verb(v.get_blob)
    health = _verb(v.health)
    workers = _verb(v.workers)
    request = _verb(v.request)

    def enqueue_many(
        self, items: Iterable[NewItem], *, queue: str | None = None
    ) -> list[a.Enqueued | a.Refused]:
        """Puts many items into a queue, or each into the one that it names.

        Goes in requests of up to 1,000 items and answers for each item in its order. A refused
        one has `ok` False and harms no other.
        """
        found: list[a.Enqueued | a.Refused] = []
        for call in v.enqueue_slices(items, queue):
            answers = self.ask(call)
            found.extend(answers)
        return found

    def list_items(
        self,
        *,
        status: str | Iterable[str] | None = None,
        queue: str | None = None,
        stage: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        collection: str | None = None,
        branch: str | None = None,
        source_type: str | None = None,
        q: str | None = None,
        page: int = 200,
    ) -> Iterator[a.Row]:
        """All items that match, newest first, page by page as they are asked for."""
        cursor: str | None = None
        while True:
            found = self.list_page(
                status=status, queue=queue, stage=stage, kind=kind, tenant=tenant,
                collection=collection, branch=branch, source_type=source_type, q=q,
                limit=page, cursor=cursor,
            )  # fmt: skip
            yield from found.items
            cursor = found.next
            if cursor is None:
                return

    def events(
        self,
        *,
        queue: str | Iterable[str] | None = None,
        tenant: str | Iterable[str] | None = None,
        status: str | Iterable[str] | None = None,
        item: str | Iterable[str] | None = None,
        last_event_id: str | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> Iterator[a.Event]:
        """What happens to items, as it happens.

        Comes back by itself when the connection is lost, with the place where it was. An event
        `reset` says that some were missed: read again what you show. `on_open` is called
        whenever the stream begins to flow.
        """
        where = v.events_path(queue=queue, tenant=tenant, status=status, item=item)
        following = Following(where, last_event_id)
        attempts, deadline = Attempts(only_looks=True), time.monotonic() + self._options.within
        while True:
            following.begins()
            missed: Missed | None = None
            connection: _Connection | None = None
            try:
                connection = _Connection(self._options, self._options.attempt)
                for data in connection.stream(self._options, following.call()):
                    attempts = Attempts(only_looks=True)
                    if on_open is not None and not data:
                        on_open()
                    yield from following.feed(data)
                missed = lost("the stream ended")
                deadline = time.monotonic() + self._options.within
            except _Missing as why:
                missed = why.missed
                if why.flowed:
                    deadline = time.monotonic() + self._options.within
            finally:
                if connection is not None:
                    connection.close()
            after = attempts.after(missed, deadline - time.monotonic(), random.random())
            if isinstance(after, WindrowError):
                raise after
            time.sleep(after)

    def ask(
        self,
        call: Call[T],
        *,
        within: Seconds | None = None,
        cut: Cut | None = None,
        missed: Callable[[WindrowError], None] | None = None,
    ) -> T:
        """Asks until there is an answer or the time is over. `missed` hears of every attempt that
        brought none and may be repeated."""
        attempts = call.attempts()
        longest = self._options.within if within is None else seconds(within)
        # Whoever gives a call less time than one attempt may take means that, too.
        once = self._options.attempt if within is None else min(self._options.attempt, longest)
        deadline = time.monotonic() + longest + call.wait
        while True:
            try:
                answer = call.answered(self._attempt(call, once, cut))
            except _Missing as why:
                answer = why.missed
            if not isinstance(answer, Missed):
                return answer
            if cut is not None and cut.is_cut:
                raise Cut.Off(answer.error)
            if missed is not None and answer.passes:
                missed(answer.error)
            after = attempts.after(answer, deadline - time.monotonic(), random.random())
            if isinstance(after, WindrowError):
                raise after
            if cut is None:
                time.sleep(after)
            elif cut.waits(after):
                raise Cut.Off(answer.error)

    def _attempt(self, call: Call[Any], once: float, cut: Cut | None) -> Reply:
        deadline = time.monotonic() + once + call.wait
        data = self._options.written(call)
        connection = self._pool.take(deadline)
        if cut is not None:
            cut.holds(connection)
        try:
            reply, keeps_open = connection.exchange(data, deadline)
        except BaseException:
            connection.close()
            raise
        finally:
            if cut is not None:
                cut.holds(None)
        if keeps_open:
            self._pool.give(connection)
        else:
            connection.close()
        return reply


class Cut:
    """Ends a call of another thread. What it asked for may have been done all the same."""

    class Off(Exception):
        """The call was cut off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._connection: _Connection | None = None

    @property
    def is_cut(self) -> bool:
        return self._event.is_set()

    def now(self) -> None:
        with self._lock:
            self._event.set()
            if self._connection is not None:
                self._connection.shut()

    def holds(self, connection: _Connection | None) -> None:
        with self._lock:
            self._connection = connection
            if connection is not None and self._event.is_set():
                connection.shut()

    def waits(self, after: float) -> bool:
        """Waits, and says whether it was cut off meanwhile."""
        return self._event.wait(after)


class _Missing(Exception):
    """There was no answer."""

    def __init__(self, missed: Missed, flowed: bool = False) -> None:
        super().__init__(missed)
        self.missed = missed
        self.flowed = flowed


class _Connection:
    """One connection to the server."""

    def __init__(self, options: Options, timeout: float) -> None:
        self.idle_since = 0.0
        try:
            raw = socket.create_connection((options.host, options.port), max(timeout, 0.001))
        except OSError as why:
            raise _Missing(not_sent(f"cannot connect to {options.server}: {why}")) from why
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = raw
            if options.tls is not None:
                self._socket = options.tls.wrap_socket(raw, server_hostname=options.host)
        except OSError as why:
            raw.close()
            kind = not_trusted if isinstance(why, ssl.SSLCertVerificationError) else not_sent
            raise _Missing(kind(f"cannot speak TLS with {options.server}: {why}")) from why

    def close(self) -> None:
        self._socket.close()

    def shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def is_stale(self) -> bool:
        """The server has closed it, or said something that nobody asked for."""
        if time.monotonic() - self.idle_since > _IDLE_S:
            return True
        self._socket.settimeout(0.0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def exchange(self, data: bytes, deadline: float) -> tuple[Reply, bool]:
        """Sends a request and reads its answer. Says whether another one may follow."""
        refused = self._send(data, deadline)
        reading, pieces = Reading(), []
        try:
            while not reading.done:
                piece = self._receive(deadline)
                if piece:
                    pieces.append(reading.feed(piece))
                else:
                    reading.closed()
        except (OSError, NotHttp) as why:
            if refused is not None:
                raise _Missing(not_sent(f"the request did not leave whole: {refused}")) from why
            raise _Missing(lost(_said(why))) from why
        reply = Reply(reading.status, reading.headers, b"".join(pieces))
        return reply, reading.keeps_open and refused is None

    def stream(self, options: Options, call: Call[None]) -> Iterator[bytes]:
        """The body of an answer that does not end, as it arrives. Begins with an empty piece."""
        deadline = time.monotonic() + options.attempt
        refused = self._send(options.written(call, accept=ACCEPT), deadline)
        if refused is not None:
            raise _Missing(not_sent(_said(refused)))
        reading, pieces, flows = Reading(), [], False
        try:
            while not reading.done:
                data = self._receive(time.monotonic() + SILENCE_S)
                if data:
                    pieces.append(reading.feed(data))
                else:
                    reading.closed()
                if reading.status == 200 and reading.has_head:
                    if not flows:
                        flows = True
                        yield b""
                    yield b"".join(pieces)
                    pieces.clear()
        except (OSError, NotHttp) as why:
            raise _Missing(lost(_said(why)), flowed=flows) from why
        if reading.status != 200:
            reply = Reply(reading.status, reading.headers, b"".join(pieces))
            missed = call.answered(reply)
            raise _Missing(missed if missed is not None else lost("there is no stream"))

    def _send(self, data: bytes, deadline: float) -> OSError | None:
        """Why it could not be sent. There may be an answer all the same, such as a refusal."""
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.sendall(data)
        except OSError as why:
            return why
        return None

    def _receive(self, deadline: float) -> bytes:
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        return self._socket.recv(_PIECE)


class _Pool:
    """Connections that are kept open while nobody uses them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._process = os.getpid()

    def take(self, deadline: float) -> _Connection:
        while True:
            with self._lock:
                if self._process != os.getpid():
                    # A fork: these connections are the parent's.
                    self._idle, self._process = [], os.getpid()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return _Connection(self._options, deadline - time.monotonic())
            if not connection.is_stale:
                return connection
            connection.close()

    def give(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            if len(self._idle) < self._options.idle_max and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _said(why: BaseException) -> str:
    if isinstance(why, TimeoutError):
        return "no answer within the time for one attempt"
    return str(why) or type(why).__name__
