"""The same verbs with asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from serving import PATIENCE_S, Proxy, Server
from windrow import (
    AsyncClient,
    Complete,
    Event,
    Invalid,
    LeaseLost,
    NewItem,
    Release,
    Unreachable,
)


def running(test: Callable[[AsyncClient], Awaitable[None]], url: str, within: float = 60) -> None:
    async def main() -> None:
        async with AsyncClient(url, within=within) as client:
            await asyncio.wait_for(test(client), PATIENCE_S)

    asyncio.run(main())


def test_an_item_goes_from_enqueue_to_completed(server: Server, queue: str) -> None:
    async def test(client: AsyncClient) -> None:
        made = await client.enqueue(queue, {"a": 1}, key="k")
        assert (await client.enqueue(queue, {"a": 1}, key="k")).outcome == "duplicate"
        grant = await client.claim(queue, max=10, wait=5)
        assert grant.lease is not None
        assert grant.items[0].payload == {"a": 1}
        assert (await client.renew(grant.lease)).held == [made.id]
        assert (await client.progress(grant.lease, made.id, 1, 2)).ok
        [settled] = await client.settle(grant.lease, [(made.id, Complete(b"\x00"))])
        assert settled.ok
        assert (await client.show(made.id)).result == b"\x00"
        with pytest.raises(LeaseLost):
            await client.renew(grant.lease)

    running(test, server.url)


def test_many_calls_share_the_client(server: Server, queue: str) -> None:
    async def test(client: AsyncClient) -> None:
        await asyncio.gather(*(client.enqueue(queue, n) for n in range(100)))
        answers = await client.enqueue_many((NewItem(n) for n in range(1200)), queue=queue)
        assert len(answers) == 1200
        seen = [row.id async for row in client.list_items(queue=queue)]
        assert len(set(seen)) == 1300
        assert (await client.stats(queue=queue)).pending == 1300

    running(test, server.url)


def test_a_waiting_claim_gets_what_arrives_and_a_cancelled_one_takes_nothing(
    server: Server, queue: str
) -> None:
    async def test(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.claim(queue, wait=20))
        made = await client.enqueue(queue, 1)
        grant = await waiting
        assert [work.id for work in grant.items] == [made.id]
        assert grant.lease is not None

        given_up = asyncio.create_task(client.claim(queue, wait=20, worker=queue))
        while not any(one.name == queue and one.waiting for one in await client.workers()):
            await asyncio.sleep(0.01)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        while any(one.name == queue and one.waiting for one in await client.workers()):
            await asyncio.sleep(0.01)
        await client.settle(grant.lease, [(made.id, Release())])
        again = await client.claim(queue, wait=5)
        assert [work.id for work in again.items] == [made.id]

    running(test, server.url)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    proxy: Proxy, queue: str
) -> None:
    async def test(client: AsyncClient) -> None:
        await client.health()
        for n in range(5):
            proxy.loses = 2
            assert (await client.enqueue(queue, n)).outcome == "created"
        proxy.loses = 1
        grant = await client.claim(queue, max=10)
        assert grant.lease is not None
        assert len(grant.items) == 5
        proxy.loses = 1
        told = await client.settle(grant.lease, [(work.id, Complete()) for work in grant.items])
        assert all(answer.ok for answer in told)
        assert (await client.stats(queue=queue)).completed == 5

    running(test, proxy.url)


def test_errors_are_the_same(server: Server, queue: str) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(Invalid) as why:
            await client.enqueue(queue, 1, priority=99)
        assert why.value.written == "no"
        with pytest.raises(Invalid) as large:
            await client.enqueue(queue, "x" * (17 * 1024 * 1024))
        assert large.value.code == "too_large"

    running(test, server.url)

    async def nobody() -> None:
        began = time.monotonic()
        async with AsyncClient("http://127.0.0.1:1", within=0.3) as client:
            with pytest.raises(Unreachable) as why:
                await client.enqueue(queue, 1)
        assert why.value.written == "no"
        assert time.monotonic() - began < 10

    asyncio.run(nobody())


def test_events_go_on_after_the_line_was_cut(proxy: Proxy, queue: str) -> None:
    async def test(client: AsyncClient) -> None:
        opened = asyncio.Event()
        seen: list[Event] = []

        async def follow() -> None:
            async for event in client.events(queue=queue, on_open=opened.set):
                seen.append(event)
                if len(seen) == 2:
                    return

        following = asyncio.create_task(follow())
        await opened.wait()
        first = await client.enqueue(queue, 1)
        while not seen:
            await asyncio.sleep(0.01)
        proxy.cut()
        second = await client.enqueue(queue, 2)
        await following
        assert [(event.id, event.event) for event in seen] == [
            (first.id, "create"),
            (second.id, "create"),
        ]

    running(test, proxy.url)


def test_one_client_serves_one_loop_after_the_other(server: Server) -> None:
    client = AsyncClient(server.url)

    async def look() -> None:
        assert (await client.health()).checks

    async def last() -> None:
        await look()
        await client.close()

    async def first() -> None:
        await look()
        # What is left open belongs to a loop that ends.
        for connection in client._idle:
            connection.close()

    asyncio.run(first())
    asyncio.run(last())
