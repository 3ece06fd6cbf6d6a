"""A worker process of the studio: reads requests from its input, writes answers to its output.

It ends with the process that started it, however that ends: its input is closed then.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from minidyn.app.studio.processes import FRAME, KILL, send
from minidyn.errors import MinidynError, details_of


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to the log
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's
    from minidyn.app.studio.desk import Desk

    desk = Desk(Path(sys.argv[1]), lambda **facts: send(answers, {"kind": "progress", **facts}))
    while True:
        request = requests.get()
        _answer(answers, getattr(desk, f"on_{request['task']}"), request["given"])


def _answer(answers: BinaryIO, act: Callable[..., Any], given: dict[str, Any]) -> None:
    try:
        made = act(**given)
    except MinidynError as error:
        send(answers, {"kind": "error", "text": str(error)})
    except Exception as error:
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        text = f"unexpected {what} (a fault of minidyn; {details_of(error)})"
        send(answers, {"kind": "error", "text": text})
    else:
        facts, data = made if isinstance(made, tuple) else (made, b"")
        send(answers, {"kind": "result", "value": facts}, data)


def _listen(stream: BinaryIO, requests: queue.Queue[dict[str, Any]]) -> None:
    while True:
        head = stream.read(FRAME.size)
        if len(head) < FRAME.size:
            break
        requests.put(json.loads(stream.read(FRAME.unpack(head)[0])))
    if hasattr(os, "killpg"):  # and what this process started
        os.killpg(os.getpid(), KILL)
    os._exit(0)


if __name__ == "__main__":
    main()
