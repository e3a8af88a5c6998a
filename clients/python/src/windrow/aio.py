"""The client for programs with asyncio. The same verbs, rules and errors as `Client`."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
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


def _verb(
    make: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A method that asks what a verb builds."""

    async def ask(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.ask(make(*args, **kwargs))

    shown_as(ask, make)
    return ask


class AsyncClient:
    """The queue of a server, for asyncio. Tasks of one loop may share one.

    Takes what `Client` takes. A call that is cancelled is given up; what it asked for may have
    been done all the same.
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
        self._idle: list[_Connection] = []

    @property
    def server(self) -> str:
        """Where the server is."""
        return self._options.server

    async def close(self) -> None:
        """Closes the connections that are kept open. The client can be used again."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            await connection.closed()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.server!r})"

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

    async def enqueue_many(
        self, items: Iterable[NewItem], *, queue: str | None = None
    ) -> list[a.Enqueued | a.Refused]:
        """Puts many items into a queue, or each into the one that it names.

        Goes in requests of up to 1,000 items and answers for each item in its order. A refused
        one has `ok` False and harms no other.
        """
        found: list[a.Enqueued | a.Refused] = []
        for call in v.enqueue_slices(items, queue):
            answers = await self.ask(call)
            found.extend(answers)
        return found

    async def list_items(
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
    ) -> AsyncIterator[a.Row]:
        """All items that match, newest first, page by page as they are asked for."""
        cursor: str | None = None
        while True:
            found = await self.list_page(
                status=status, queue=queue, stage=stage, kind=kind, tenant=tenant,
                collection=collection, branch=branch, source_type=source_type, q=q,
                limit=page, cursor=cursor,
            )  # fmt: skip
            for row in found.items:
                yield row
            cursor = found.next
            if cursor is None:
                return

    async def events(
        self,
        *,
        queue: str | Iterable[str] | None = None,
        tenant: str | Iterable[str] | None = None,
        status: str | Iterable[str] | None = None,
        item: str | Iterable[str] | None = None,
        last_event_id: str | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncIterator[a.Event]:
        """What happens to items, as it happens; see `Client.events`."""
        where = v.events_path(queue=queue, tenant=tenant, status=status, item=item)
        following = Following(where, last_event_id)
        attempts, deadline = Attempts(only_looks=True), time.monotonic() + self._options.within
        while True:
            following.begins()
            connection: _Connection | None = None
            try:
                connection = await _Connection.open(self._options, self._options.attempt)
                async for data in connection.stream(self._options, following.call()):
                    attempts = Attempts(only_looks=True)
                    if on_open is not None and not data:
                        on_open()
                    for event in following.feed(data):
                        yield event
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
            await asyncio.sleep(after)

    async def ask(self, call: Call[T], *, within: Seconds | None = None) -> T:
        """Asks until there is an answer or the time is over."""
        attempts = call.attempts()
        longest = self._options.within if within is None else seconds(within)
        # Whoever gives a call less time than one attempt may take means that, too.
        once = self._options.attempt if within is None else min(self._options.attempt, longest)
        deadline = time.monotonic() + longest + call.wait
        while True:
            try:
                answer = call.answered(await self._attempt(call, once))
            except _Missing as why:
                answer = why.missed
            if not isinstance(answer, Missed):
                return answer
            after = attempts.after(answer, deadline - time.monotonic(), random.random())
            if isinstance(after, WindrowError):
                raise after
            await asyncio.sleep(after)

    async def _attempt(self, call: Call[Any], once: float) -> Reply:
        longest = once + call.wait
        data = self._options.written(call)
        connection = await self._take()
        try:
            reply, keeps_open = await connection.exchange(data, longest)
        except BaseException:
            connection.close()
            raise
        if keeps_open and len(self._idle) < self._options.idle_max:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    async def _take(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale:
                return connection
            connection.close()
        return await _Connection.open(self._options, self._options.attempt)


class _Missing(Exception):
    """There was no answer."""

    def __init__(self, missed: Missed, flowed: bool = False) -> None:
        super().__init__(missed)
        self.missed = missed
        self.flowed = flowed


class _Connection:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def open(options: Options, timeout: float) -> _Connection:
        host = options.host if options.tls is not None else None
        opening = asyncio.open_connection(
            options.host, options.port, ssl=options.tls, server_hostname=host
        )
        try:
            reader, writer = await asyncio.wait_for(opening, timeout)
        except (OSError, asyncio.TimeoutError) as why:
            said = f"cannot connect to {options.server}: {_said(why)}"
            kind = not_trusted if isinstance(why, ssl.SSLCertVerificationError) else not_sent
            raise _Missing(kind(said)) from why
        return _Connection(reader, writer)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._writer.close()

    async def closed(self) -> None:
        try:
            await self._writer.wait_closed()
        except (OSError, RuntimeError):
            return

    @property
    def is_stale(self) -> bool:
        """The server has closed it, or it belongs to a loop that has ended."""
        is_ours = self._loop is asyncio.get_running_loop()
        is_old = time.monotonic() - self.idle_since > _IDLE_S
        return not is_ours or is_old or self._reader.at_eof() or self._writer.is_closing()

    async def exchange(self, data: bytes, longest: float) -> tuple[Reply, bool]:
        """Sends a request and reads its answer. Says whether another one may follow."""
        try:
            return await asyncio.wait_for(self._exchange(data), longest)
        except asyncio.TimeoutError as why:
            raise _Missing(lost(_said(why))) from why

    async def _exchange(self, data: bytes) -> tuple[Reply, bool]:
        refused = await self._send(data)
        reading, pieces = Reading(), []
        try:
            while not reading.done:
                piece = await self._reader.read(_PIECE)
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

    async def stream(self, options: Options, call: Call[None]) -> AsyncIterator[bytes]:
        """The body of an answer that does not end, as it arrives. Begins with an empty piece."""
        refused = await self._send(options.written(call, accept=ACCEPT))
        if refused is not None:
            raise _Missing(not_sent(_said(refused)))
        reading, pieces, flows = Reading(), [], False
        try:
            while not reading.done:
                data = await asyncio.wait_for(self._reader.read(_PIECE), SILENCE_S)
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
        except (OSError, NotHttp, asyncio.TimeoutError) as why:
            raise _Missing(lost(_said(why)), flowed=flows) from why
        if reading.status != 200:
            missed = call.answered(Reply(reading.status, reading.headers, b"".join(pieces)))
            raise _Missing(missed if missed is not None else lost("there is no stream"))

    async def _send(self, data: bytes) -> OSError | None:
        """Why it could not be sent. There may be an answer all the same, such as a refusal."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as why:
            return why
        return None


def _said(why: BaseException) -> str:
    if isinstance(why, (TimeoutError, asyncio.TimeoutError)):
        return "no answer within the time for one attempt"
    return str(why) or type(why).__name__
