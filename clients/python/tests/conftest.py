"""A real server for the tests. WINDROW_BIN names its binary."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serving import Proxy, Server, binary
from windrow import Client


def pytest_sessionstart(session: pytest.Session) -> None:
    try:
        binary()
    except RuntimeError as why:
        pytest.exit(str(why), returncode=4)


@pytest.fixture(scope="session", autouse=True)
def _no_environment() -> None:
    """What the caller's environment says about servers is not meant for the tests."""
    for name in ("WINDROW_SERVER", "WINDROW_TOKEN", "WINDROW_TOKEN_FILE"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that do it no harm."""
    with Server(tmp_path_factory.mktemp("windrow")) as shared:
        yield shared


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server for a test that kills it."""
    with Server(tmp_path / "data") as own:
        yield own


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as one:
        yield one


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Stands between a client and the shared server, and loses answers when told to."""
    with Proxy(server.port) as between:
        yield between


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def quick(client: Client, queue: str) -> Callable[..., str]:
    """Makes the queue try again at once."""

    def configure(**more: object) -> str:
        settings = client.settings(queue)
        settings["backoff"] = {"base_ms": 1, "cap_ms": 1, "slow_base_ms": 1, "slow_cap_ms": 1}
        settings["on_expiry"] = "requeue"
        settings.update(more)  # type: ignore[typeddict-item]
        client.configure(queue, settings)
        return queue

    return configure
