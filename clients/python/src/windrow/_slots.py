"""Where handlers run: in threads, or as tasks of an event loop.

Turns what a handler returns or raises into outcomes. Never lets an exception of a handler out.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ._engine import Engine
from ._hand import AnyJob
from .errors import LeaseLost, WindrowError
from .outcomes import Complete, Fail, Outcome, Retry, Signal

log = logging.getLogger("windrow")

_FRAMES_MAX = 5
_OWN = str(Path(__file__).parent)


class Handling:
    """A handler, and how jobs are made ready for it."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
        decode: Callable[[Any], Any] | None,
        batch: int | None,
    ) -> None:
        self.handler = handler
        self.decode = decode
        self.batch = batch

    @property
    def is_async(self) -> bool:
        call = getattr(self.handler, "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(self.handler) or inspect.iscoroutinefunction(call)

    def units(self, jobs: list[AnyJob]) -> list[list[AnyJob]]:
        """Jobs as they go to the handler: one by one, or in batches."""
        size = self.batch or 1
        return [jobs[at : at + size] for at in range(0, len(jobs), size)]

    def argument(self, jobs: list[AnyJob]) -> Any:
        return jobs[0] if self.batch is None else jobs

    def ready(self, engine: Engine, unit: list[AnyJob]) -> list[AnyJob]:
        """Those jobs of a unit that can be worked on, with their payloads."""
        found = []
        for job in unit:
            if not engine.hand.begin(job):
                continue
            failed = self._load(engine, job)
            if failed is None:
                found.append(job)
            else:
                engine.end(job, failed)
                engine.hand.handled(1)
        return found

    def _load(self, engine: Engine, job: AnyJob) -> Outcome | None:
        payload = job.work.payload
        if job.work.payload_ref is not None:
            try:
                payload = engine.client.payload_of(job.lease, job.id)
            except WindrowError as why:
                return Retry(f"its payload cannot be read: {why}", class_="infrastructure")
        if self.decode is None:
            job.payload = payload
            return None
        try:
            job.payload = self.decode(payload)
        except Signal as outcome:
            return outcome
        except Exception as why:
            return Fail(f"its payload is not understood: {said(why)}", class_="bad_data")
        return None

    def returned(self, engine: Engine, jobs: list[AnyJob], result: Any) -> None:
        """The handler has ended well."""
        if self.batch is None:
            engine.end(jobs[0], as_outcome(jobs[0], result))
            return
        results: Sequence[Any] = [None] * len(jobs) if result is None else result
        try:
            count = len(results)
        except TypeError:
            count = -1
        if count != len(jobs) or isinstance(results, (str, bytes, dict)):
            why = f"the handler of {len(jobs)} jobs returned neither None nor a list of as many"
            self.raised(engine, jobs, TypeError(why))
            return
        for job, one in zip(jobs, results, strict=True):
            engine.end(job, as_outcome(job, one))

    def raised(self, engine: Engine, jobs: list[AnyJob], why: BaseException) -> None:
        """The handler has raised something."""
        outcome: Outcome
        if isinstance(why, Signal):
            outcome = why
        elif isinstance(why, LeaseLost) and all(job.cancelled for job in jobs):
            return
        else:
            log.warning("the handler of %s failed", jobs[0], exc_info=why)
            outcome = Retry(said(why))
        for job in jobs:
            engine.end(job, outcome)


def as_outcome(job: AnyJob, result: Any) -> Outcome:
    """What a handler returned: an outcome, or else what the work came to."""
    if isinstance(result, Outcome):
        return result
    return Complete(result) if job.is_last_stage else Complete(output=result)


def said(why: BaseException) -> str:
    """An exception in a few lines: what it was, and where."""
    first = "".join(traceback.format_exception_only(type(why), why)).strip()
    frames = [
        frame
        for frame in traceback.extract_tb(why.__traceback__)
        if not frame.filename.startswith(_OWN)
    ]
    lines = [
        f"  at {frame.name} ({Path(frame.filename).name}:{frame.lineno})"
        for frame in reversed(frames[-_FRAMES_MAX:])
    ]
    return "\n".join([first, *lines])


class ThreadSlots:
    """Handlers in threads, as many as run at once."""

    def __init__(self, engine: Engine, handling: Handling) -> None:
        self._engine = engine
        self._handling = handling
        self._units: queue.SimpleQueue[list[AnyJob] | None] = queue.SimpleQueue()
        # Daemons: a handler that hangs must not keep the process alive.
        self._threads = [
            threading.Thread(target=self._run, name=f"windrow-slot-{n}", daemon=True)
            for n in range(engine.plan.concurrency)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def put(self, jobs: list[AnyJob]) -> None:
        for unit in self._handling.units(jobs):
            self._units.put(unit)

    def stop(self) -> None:
        for _ in self._threads:
            self._units.put(None)

    def _run(self) -> None:
        while (unit := self._units.get()) is not None:
            self._work(unit)

    def _work(self, unit: list[AnyJob]) -> None:
        handling = self._handling
        jobs = handling.ready(self._engine, unit)
        if not jobs:
            return
        try:
            result = handling.handler(handling.argument(jobs))
        except BaseException as why:
            # A handler that calls sys.exit fails like any other.
            handling.raised(self._engine, jobs, why)
        else:
            handling.returned(self._engine, jobs, result)
        finally:
            self._engine.hand.handled(len(jobs))


class TaskSlots:
    """Handlers as tasks of an event loop: the caller's, or one in a thread of its own."""

    def __init__(
        self, engine: Engine, handling: Handling, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._engine = engine
        self._handling = handling
        self._thread: threading.Thread | None = None
        if loop is None:
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run_loop, name="windrow-loop", daemon=True)
        self._loop = loop
        self._units: asyncio.Queue[list[AnyJob] | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if self._thread is not None:
            self._thread.start()
        self._call(self._begin)

    def put(self, jobs: list[AnyJob]) -> None:
        self._call(self._put, self._handling.units(jobs))

    def stop(self) -> None:
        self._call(self._end)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _call(self, what: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, *arguments)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _begin(self) -> None:
        for _ in range(self._engine.plan.concurrency):
            self._tasks.append(self._loop.create_task(self._run()))

    def _put(self, units: list[list[AnyJob]]) -> None:
        for unit in units:
            self._units.put_nowait(unit)

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._thread is not None:
            ending = asyncio.gather(*self._tasks, return_exceptions=True)
            ending.add_done_callback(lambda _: self._loop.stop())

    async def _run(self) -> None:
        while (unit := await self._units.get()) is not None:
            await self._work(unit)

    async def _work(self, unit: list[AnyJob]) -> None:
        handling, engine = self._handling, self._engine
        if any(job.work.payload_ref is not None for job in unit):
            jobs = await asyncio.to_thread(handling.ready, engine, unit)
        else:
            jobs = handling.ready(engine, unit)
        if jobs:
            try:
                await self._handle(jobs)
            finally:
                engine.hand.handled(len(jobs))

    async def _handle(self, jobs: list[AnyJob]) -> None:
        handling, engine = self._handling, self._engine
        working = asyncio.ensure_future(_handled(handling.handler, handling.argument(jobs)))
        for job in jobs:
            job._on_lost = lambda: self._call(self._give_up, working, jobs)
            if job.cancelled:
                job._on_lost()
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError:
            # It is we who are cancelled, not the handler.
            working.cancel()
            raise
        if working.cancelled():
            if not all(job.cancelled for job in jobs):
                handling.raised(engine, jobs, asyncio.CancelledError("the handler was cancelled"))
        elif (why := working.exception()) is not None:
            handling.raised(engine, jobs, why)
        else:
            handling.returned(engine, jobs, working.result())

    def _give_up(self, working: asyncio.Future[Any], jobs: list[AnyJob]) -> None:
        """Ends a handler of which no job is ours any more."""
        if all(job.cancelled for job in jobs):
            working.cancel()


async def _handled(handler: Callable[[Any], Awaitable[Any]], argument: Any) -> Any:
    # It is called in here, so that what the call itself raises is the handler's.
    return await handler(argument)
