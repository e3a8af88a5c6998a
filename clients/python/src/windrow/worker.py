"""Workers: a handler, and everything around it.

from windrow import Job, worker

@worker("thumbs", concurrency=4)
def thumb(job: Job) -> dict:
    return {"size": make_thumb(job.payload["path"])}

thumb.run()
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, overload

from ._engine import Engine, Plan, Slots
from ._json import Seconds, seconds
from ._slots import Handling, TaskSlots, ThreadSlots
from .client import Client
from .errors import WindrowError
from .job import Job

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class WorkerOptions(TypedDict, total=False):
    """What can be chosen about a worker.

    concurrency: how many handlers run at once; 1 by default.
    prefetch: how many items may wait in hand for a handler, beyond those that run. 0 by default,
        which is fair to other workers; raise it where handling is quicker than asking.
    lease: how long an item is ours without a sign of life, in seconds; 60 by default. It is
        renewed at a third of that, and after it a dead worker's items go to others.
    grace: how long what runs may go on after a stop; 30 seconds by default.
    wait: how long one claim waits for work; 20 seconds by default, 60 at most. One that does not
        wait rests before the next, up to half a second.
    stages, kinds, tenants: to take only these.
    name: as others see the worker; by default of the machine and the process.
    client: the client to use; by default one of the environment.
    """

    concurrency: int
    prefetch: int
    lease: Seconds
    grace: Seconds
    wait: Seconds
    stages: Iterable[str]
    kinds: Iterable[str]
    tenants: Iterable[str]
    name: str | None
    client: Client | None


class Worker(Generic[T]):
    """A handler that does the work of queues.

    `run()` blocks until SIGINT or SIGTERM. `with worker:` and `async with worker:` work in the
    background until the end of the block. Handlers that are coroutines run as tasks, others in
    threads; heartbeats never wait for either.
    """

    def __init__(
        self,
        handler: Callable[[Any], Any],
        queues: str | Iterable[str],
        *,
        batch: int | None = None,
        decode: Callable[[Any], T] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self._handling = Handling(handler, decode, batch)
        self._client = options.pop("client", None)
        self._plan = _planned(queues, batch, options)
        self._engine: Engine | None = None
        self._own: Client | None = None
        self.__doc__ = handler.__doc__

    @property
    def handler(self) -> Callable[[Any], Any]:
        """The function itself, for tests."""
        return self._handling.handler

    def __call__(self, argument: Any) -> Any:
        """Calls the handler, as if it were not decorated."""
        return self._handling.handler(argument)

    @property
    def endings(self) -> dict[str, int]:
        """How many items of this run were settled, by what became of them."""
        return {} if self._engine is None else dict(self._engine.endings)

    @property
    def failure(self) -> WindrowError | None:
        """What made it impossible to go on, such as a wrong token."""
        return None if self._engine is None else self._engine.failure

    def run(self, *, drain: bool = False) -> None:
        """Works until SIGINT or SIGTERM; with `drain`, until there is nothing left to claim.

        The first signal stops claiming, lets handlers end within the grace, and hands back the
        rest, which costs no attempt. A second one ends the grace. Raises what made it impossible
        to go on, such as a wrong token; a server that is away is waited for.
        """
        run(self, drain=drain)

    async def run_async(self, *, drain: bool = False) -> None:
        """The same as `run`, inside a running event loop; handlers are tasks of that loop."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        engines: list[Engine] = []

        def stop() -> None:
            if stopping.is_set():
                for engine in engines:
                    engine.hurry()
            stopping.set()

        with _loop_signals(loop, stop):
            engine = self._begin(drain, loop)
            engines.append(engine)
            watching = loop.run_in_executor(None, engine.ended.wait)
            watching.add_done_callback(lambda _: stopping.set())
            try:
                await stopping.wait()
            finally:
                engine.ended.set()
                await self._finish_async()

    def start(self) -> None:
        """Begins to work in the background."""
        self._begin(False, None)

    def stop(self, grace: Seconds | None = None) -> None:
        """Stops as a signal does, and returns when that is done."""
        engine = self._engine
        if engine is not None:
            self._finish(None if grace is None else seconds(grace))

    def __enter__(self) -> Worker[T]:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._finish(None)
        except Exception:
            if kind is None:
                raise

    async def __aenter__(self) -> Worker[T]:
        self._begin(False, asyncio.get_running_loop())
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self._finish_async()
        except Exception:
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"Worker({getattr(self.handler, '__name__', '?')}, {', '.join(self._plan.queues)})"

    def _begin(self, drain: bool, loop: asyncio.AbstractEventLoop | None) -> Engine:
        client = self._client
        if client is None:
            client = self._own = Client(idle_max=self._plan.concurrency + 8)

        def slots(engine: Engine) -> Slots:
            if self._handling.is_async:
                return TaskSlots(engine, self._handling, loop)
            return ThreadSlots(engine, self._handling)

        self._engine = Engine(client, self._plan, slots, drain)
        self._engine.start()
        return self._engine

    def _finish(self, grace_s: float | None) -> None:
        assert self._engine is not None, "it has not been started"
        self._engine.stop(grace_s)
        if self._own is not None:
            self._own.close()
            self._own = None
        if self._engine.failure is not None:
            raise self._engine.failure

    async def _finish_async(self) -> None:
        # In a thread: the loop must go on, because handlers may still run on it.
        await asyncio.to_thread(self._finish, None)


@overload
def worker(
    queues: str | Iterable[str],
    *,
    batch: None = None,
    decode: None = None,
    **options: Unpack[WorkerOptions],
) -> Callable[[Callable[[Job[Any]], Any]], Worker[Any]]: ...


@overload
def worker(
    queues: str | Iterable[str],
    *,
    batch: None = None,
    decode: Callable[[Any], T],
    **options: Unpack[WorkerOptions],
) -> Callable[[Callable[[Job[T]], Any]], Worker[T]]: ...


@overload
def worker(
    queues: str | Iterable[str],
    *,
    batch: int,
    decode: None = None,
    **options: Unpack[WorkerOptions],
) -> Callable[[Callable[[list[Job[Any]]], Any]], Worker[Any]]: ...


@overload
def worker(
    queues: str | Iterable[str],
    *,
    batch: int,
    decode: Callable[[Any], T],
    **options: Unpack[WorkerOptions],
) -> Callable[[Callable[[list[Job[T]]], Any]], Worker[T]]: ...


def worker(
    queues: str | Iterable[str],
    *,
    batch: int | None = None,
    decode: Callable[[Any], Any] | None = None,
    **options: Unpack[WorkerOptions],
) -> Callable[[Callable[[Any], Any]], Worker[Any]]:
    """Makes a worker of a function, or of a coroutine function.

    The function gets a `Job`. What it returns is the result, or an outcome such as `Split`. It
    raises `Retry`, `Fail`, `Skip`, `Snooze` or `Release` to say so; any other exception is tried
    again, with its message as the error. `decode` makes something of each payload, such as a
    dataclass; what it refuses is failed as bad data.

    With `batch` the function gets a list of up to as many jobs, and returns None if all are
    done, or a list with what it would have returned for each.

    For the other options see `WorkerOptions`.
    """

    def made(handler: Callable[[Any], Any]) -> Worker[Any]:
        return Worker(handler, queues, batch=batch, decode=decode, **options)

    return made


def run(*workers: Worker[Any], drain: bool = False) -> None:
    """Runs several workers in one process, as `Worker.run` does one."""
    # A signal's handler may do little: putting a word here is safe at any moment.
    words: queue.SimpleQueue[Literal["stop", "ended", "finished"]] = queue.SimpleQueue()
    failures: list[Exception] = []
    stops, finished = 0, 0

    def watch(engine: Engine) -> None:
        engine.ended.wait()
        words.put("ended")

    def finish(of: Worker[Any]) -> None:
        try:
            of._finish(None)
        except Exception as why:
            failures.append(why)
        words.put("finished")

    # Before anything is claimed: a signal must find us ready.
    with _signals(lambda *_: words.put("stop")):
        engines = [each._begin(drain, None) for each in workers]
        for engine in engines:
            threading.Thread(target=watch, args=(engine,), daemon=True).start()
        running = len(engines)
        while finished < len(engines):
            word = words.get()
            if word == "finished":
                finished += 1
                continue
            if word == "ended":
                running -= 1
                if running and not any(engine.failure for engine in engines):
                    continue
            stops += 1
            if stops == 1:
                for each in workers:
                    threading.Thread(target=finish, args=(each,), daemon=True).start()
            elif word == "stop":
                for engine in engines:
                    engine.hurry()
    if failures:
        raise failures[0]


def _planned(queues: str | Iterable[str], batch: int | None, options: WorkerOptions) -> Plan:
    concurrency = options.pop("concurrency", 1)
    prefetch = options.pop("prefetch", 0)
    lease = seconds(options.pop("lease", 60.0))
    if concurrency < 1 or prefetch < 0 or (batch is not None and not 1 <= batch <= 1000):
        raise ValueError("concurrency is at least 1, prefetch at least 0, a batch 1 to 1000")
    if not 0.001 <= lease <= 43_200:
        raise ValueError("a lease lasts from a millisecond to twelve hours")
    plan = Plan(
        queues=(queues,) if isinstance(queues, str) else tuple(queues),
        stages=tuple(options.pop("stages", ())),
        kinds=tuple(options.pop("kinds", ())),
        tenants=tuple(options.pop("tenants", ())),
        name=options.pop("name", None) or f"{socket.gethostname()}-{os.getpid()}",
        concurrency=concurrency,
        batch=batch,
        prefetch=prefetch,
        lease_s=lease,
        wait_s=seconds(options.pop("wait", 20.0)),
        grace_s=seconds(options.pop("grace", 30.0)),
    )
    if options:
        raise TypeError(f"a worker has no {', '.join(options)}")
    return plan


@contextlib.contextmanager
def _signals(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop`, where that is possible: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {of: signal.signal(of, stop) for of in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for of, handler in before.items():
            signal.signal(of, handler)


@contextlib.contextmanager
def _loop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    """The same for a running event loop."""
    heard = []
    for of in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(of, stop)
            heard.append(of)
    try:
        yield
    finally:
        for of in heard:
            loop.remove_signal_handler(of)
