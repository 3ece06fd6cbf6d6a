"""Worker processes of the studio: asked over pipes, stopped with the server however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from minidyn.errors import MinidynError

FRAME = struct.Struct(">IQ")
"""Head of a message on a pipe: bytes of its JSON, then bytes of numbers behind it."""
PATIENCE = 120.0
"""Seconds that a short request may take before its process is stopped."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that no process survives; Windows has one signal."""
_GRACE = 3.0  # seconds in which a process that is asked to end puts its files in order

Answer = tuple[dict[str, Any], bytes]


class WorkEnded(MinidynError):
    """A worker process ended before it answered."""


class Worker:
    """A process that does one request after the other, in a group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def ask(self, task: str, **given: Any) -> Answer:
        """Return the answer to a short request; an error of the work is raised here."""
        async with self._turn:
            try:
                async with asyncio.timeout(PATIENCE):
                    async for message, data in self._messages(task, given):
                        if message["kind"] == "result":
                            return message, data
            except TimeoutError:
                await self.end(KILL)
                raise WorkEnded(f"{task}: no answer within {PATIENCE:.0f} s") from None
        raise WorkEnded(f"{task}: no answer")

    async def run(self, task: str, **given: Any) -> AsyncIterator[dict[str, Any]]:
        """Give the messages of long work: progress, then its result."""
        async for message, _ in self._messages(task, given):
            yield message

    async def _messages(self, task: str, given: dict[str, Any]) -> AsyncIterator[Answer]:
        process = await self._started()
        if process.stdin is None or process.stdout is None:
            raise WorkEnded(f"{task}: the worker process has no pipes")
        try:
            process.stdin.write(frame({"task": task, "given": given}))
            await process.stdin.drain()
            while True:
                sizes = FRAME.unpack(await process.stdout.readexactly(FRAME.size))
                message = json.loads(await process.stdout.readexactly(sizes[0]))
                data = await process.stdout.readexactly(sizes[1])
                if message["kind"] == "error":
                    raise MinidynError(message["text"])
                yield message, data
                if message["kind"] == "result":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await process.wait()
            self._process = None
            raise WorkEnded(f"{task}: the worker process ended ({_ending(code)})") from None

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            log = (self.folder / "worker.log").open("ab")
            with log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "minidyn.app.studio.worker",
                    str(self.folder.parent),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        return self._process

    async def end(self, first: int = signal.SIGTERM) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        for number in (first, KILL):
            _signal(process.pid, number)
            try:
                await asyncio.wait_for(process.wait(), _GRACE)
                break
            except TimeoutError:
                continue
        _signal(process.pid, KILL)  # what the process started and left behind


def frame(message: dict[str, Any], data: bytes = b"") -> bytes:
    """Return a message as it goes over a pipe."""
    text = json.dumps(message).encode()
    return FRAME.pack(len(text), len(data)) + text + data


def send(stream: BinaryIO, message: dict[str, Any], data: bytes = b"") -> None:
    """Write a message to a pipe."""
    stream.write(frame(message, data))
    stream.flush()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _ending(code: int) -> str:
    """Return in words how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
