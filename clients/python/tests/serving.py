"""Starts the real server, and stands between it and a client."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Long enough for a machine that does other things too.
PATIENCE_S = 30.0


def eventually(found: Callable[[], T | None], what: str = "it") -> T:
    """Asks until there is an answer. The only way in which tests wait."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {PATIENCE_S} s")
        time.sleep(0.01)


def binary() -> str:
    path = os.environ.get("WINDROW_BIN")
    if not path:
        raise RuntimeError(
            "WINDROW_BIN must name the windrow binary: build it with "
            "`cargo build -p windrow-server` and set it to target/debug/windrow"
        )
    if not Path(path).is_file():
        raise RuntimeError(f"WINDROW_BIN names {path}, which is not there")
    return path


class Server:
    """One server on a directory of its own. It can be killed and started again, on its port."""

    def __init__(self, data: Path, arguments: Sequence[str] = ()) -> None:
        self._data = data
        self._arguments = list(arguments)
        self._process: subprocess.Popen[str] | None = None
        self.scheme = "http"
        self.port = 0
        self._has_admin = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        listen = ["--listen", f"127.0.0.1:{self.port}", "--rpc-listen", "off"]
        command = [binary(), "serve", "--data-dir", str(self._data), *listen, *self._arguments]
        log = self._data.parent / f"{self._data.name}.log"
        with log.open("a") as out:
            before = log.stat().st_size
            self._process = subprocess.Popen(command, stdout=out, stderr=out, text=True)

        def address() -> re.Match[str] | None:
            assert self._process is not None
            text = log.read_text()[before:]
            assert self._process.poll() is None, f"the server did not start:\n{text}"
            return re.search(r"(https?)://127\.0\.0\.1:(\d+)", text)

        found = eventually(address, "the start of the server")
        self.scheme, self.port = found[1], int(found[2])

    def kill(self) -> None:
        """As the power goes."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def token(self, role: str) -> str:
        """Makes a token while the server is down. A store's first is an admin's."""
        if role != "admin" and not self._has_admin:
            self.token("admin")
        self._has_admin = True
        command = [binary(), "token", "create", "--role", role, "--data-dir", str(self._data)]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        return made.stdout.strip().splitlines()[-1]

    def __enter__(self) -> Server:
        self._data.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Proxy:
    """Passes bytes on, and cuts connections where it is told to."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        #: How many answers to lose: the request arrives, and then the line is cut.
        self.loses = 0
        #: How many requests were passed on, by their first line.
        self.passed: list[str] = []
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Cuts all connections."""
        with self._lock:
            for one in self._sockets:
                _shut(one)

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Wakes the thread that accepts, which a close alone does not.
        _shut(self._listening)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            with self._lock:
                self._sockets |= {near, far}
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer:
                    with self._lock:
                        if self.loses > 0:
                            self.loses -= 1
                            break
                else:
                    self.passed.append(data.split(b"\r\n", 1)[0].decode("latin-1"))
                target.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, target):
                _shut(one)
            with self._lock:
                self._sockets.discard(source)
            source.close()


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
