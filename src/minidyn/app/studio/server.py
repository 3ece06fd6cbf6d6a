"""The studio's server: one page for one study folder, on this machine's own address."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from minidyn.app.studio.guard import FRAMED, Guard
from minidyn.app.studio.processes import Worker, frame
from minidyn.errors import DescriptionError, MinidynError, optional
from minidyn.text import visible

if TYPE_CHECKING:
    from starlette.requests import Request

UPLOAD_LIMIT = 4 << 30
"""Bytes that one uploaded file may have: an hour of seven joints at 1 kHz as CSV has 0.5e9."""
BODY_LIMIT = 1 << 20
"""Bytes of any other request."""
ROBOT_ENDINGS = (".toml", ".urdf", ".xacro", ".xml", ".mjcf")
LOG_ENDINGS = (
    ".csv", ".txt", ".tsv", ".dat", ".log", ".parquet", ".pq", ".h5", ".hdf5", ".npz", ".mat",
    ".db3", ".mcap", ".bag",
)  # fmt: skip
"""Endings of files that may be uploaded: those of robots and of logs that are one file."""
NOTES, STUDY, PAGES = ".studio", "study.toml", ("check.html", "comparison.html")
"""Names in a study's folder; `desk.py` writes them."""

_ASSETS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PULSE = 15.0  # seconds between signs of life to a page
_SHORT = 3.0  # seconds in which a page that is loaded again stays the one that may write
_LONGEST_NAME = 120  # characters of a file's name that are kept to be shown


@dataclass(eq=False)
class _Window:
    """One page that listens."""

    name: str
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Studio:
    """One study folder, its worker processes and the pages that look at it."""

    def __init__(self, folder: Path, limit: int = UPLOAD_LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self.desk = Worker(folder / NOTES)
        self.state: dict[str, Any] = {}
        self.work: dict[str, Any] | None = None  # phase, share and end of long work
        self.message = ""  # what failed before the page could ask
        self._job: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        self._windows: list[_Window] = []
        self._writer = ""
        self._is_over = False

    # ------------------------------------------------------------ state

    async def begin(self, robot: str, logs: tuple[str, ...]) -> None:
        """Do what the command line asks for, then show the study."""
        try:
            self.state = (await self.desk.ask("state"))[0]["value"]
            if robot:
                await self.act("robot", {"file": robot})
            if logs:
                await self.act("logs", {"fit": list(logs), "test": []})
        except MinidynError as error:
            self.message = str(error)
            sys.stderr.write(f"error: {visible(self.message)}\n")
        self.tell()

    async def act(self, name: str, given: dict[str, Any]) -> None:
        """Do one action, and read logs that it makes new."""
        if self.is_busy and (self.work or {}).get("task") == "read":
            await self.cancel()  # what is read next is another file, or read otherwise
        if self.is_busy:
            raise DescriptionError("wait until the work is through, or cancel it")
        answer, _ = await self.desk.ask("act", name=name, given=given)
        self.state = answer["value"]
        self.message = ""
        if self.state["unread"]:
            self.start("read", {})
        self.tell()

    @property
    def is_busy(self) -> bool:
        """Whether long work runs."""
        return self._job is not None and not self._job.done()

    def start(self, task: str, given: dict[str, Any]) -> None:
        """Begin long work in a process of its own."""
        if self.is_busy:
            raise DescriptionError("other work runs; wait until it is through, or cancel it")
        loop = asyncio.get_running_loop()
        self.work = {"task": task, "phase": "starting", "done": 0, "total": 1, "begin": loop.time()}
        self._worker = Worker(self.folder / NOTES)
        self._job = asyncio.create_task(self._run(task, given, self._worker))
        self.tell()

    async def _run(self, task: str, given: dict[str, Any], worker: Worker) -> None:
        end = {"task": task, "end": "done", "text": ""}
        try:
            async for message in worker.run(task, **given):
                if message["kind"] == "progress":
                    self.work = {**(self.work or {}), **message}
                    self.tell()
        except asyncio.CancelledError:
            end |= {"end": "cancelled", "text": "Cancelled; what was finished is kept."}
        except MinidynError as error:
            end |= {"end": "failed", "text": str(error)}
        finally:
            await worker.end()
        with suppress(MinidynError):
            self.state = (await self.desk.ask("reload"))[0]["value"]
        self.work = end
        self.tell()

    async def cancel(self) -> None:
        """Stop long work."""
        if self._job is not None and self.is_busy:
            self._job.cancel()
            with suppress(asyncio.CancelledError):
                await self._job

    def leave(self) -> None:
        """Let go of all pages, so that the server can end."""
        self._is_over = True
        self.tell()

    async def close(self) -> None:
        """Stop everything."""
        await self.cancel()
        await self.desk.end()

    # ------------------------------------------------------------ windows

    def tell(self) -> None:
        """Tell every page that there is something new."""
        for window in self._windows:
            window.news.set()

    def require_writer(self, name: str) -> None:
        """Refuse changes from any page but the first."""
        if name != self._writer:
            raise PermissionError("Another window changes this study; this one only looks.")

    async def listen(self, name: str) -> AsyncIterator[bytes]:
        """Give a page the state, again whenever it changes, until the page is closed."""
        window = _Window(name)
        for _ in range(10):  # a page that is loaded again has not always left yet
            if all(one.name != name for one in self._windows):
                break
            await asyncio.sleep(0.1)
        else:
            window.name = f"{name[:40]}-{os.urandom(4).hex()}"
        self._windows.append(window)
        self._writer = self._writer or window.name
        window.news.set()
        try:
            while not self._is_over:
                try:
                    await asyncio.wait_for(window.news.wait(), _PULSE)
                except TimeoutError:
                    yield b": \n\n"
                    continue
                window.news.clear()
                yield b"data: " + json.dumps(self._seen_by(window)).encode() + b"\n\n"
        finally:
            self._windows.remove(window)
            asyncio.get_running_loop().call_later(_SHORT, self._pass_on)

    def _seen_by(self, window: _Window) -> dict[str, Any]:
        work = self.work
        if work is not None and "begin" in work:
            seconds = asyncio.get_running_loop().time() - work["begin"]
            work = {**work, "seconds": round(seconds, 1)}
        return {
            "state": self.state,
            "work": work,
            "message": self.message,
            "window": window.name,
            "writes": window.name == self._writer,
        }

    def _pass_on(self) -> None:
        """Let the oldest page write where the one that did is gone."""
        names = [one.name for one in self._windows]
        if self._writer not in names:
            self._writer = names[0] if names else ""
            self.tell()

    # ------------------------------------------------------------ files

    async def take(self, kind: str, name: str, stream: AsyncIterator[bytes]) -> str:
        """Write an uploaded file under a name of ours; return it as seen from the folder."""
        shown = visible(PurePosixPath(name.replace("\\", "/")).name)[-_LONGEST_NAME:]
        ending = PurePosixPath(shown).suffix.lower()
        known = {"robot": ROBOT_ENDINGS, "log": LOG_ENDINGS}[kind]
        if ending not in known:
            raise DescriptionError(
                f"{shown}: a {kind} file ends with one of {', '.join(known)}; "
                "other logs, such as folders of a bag, are named on the command line"
            )
        place = self.folder / "files"
        place.mkdir(exist_ok=True)
        part = place / f".part-{os.urandom(8).hex()}"
        try:
            size = 0
            with part.open("xb") as target:
                async for chunk in stream:
                    size += len(chunk)
                    if size > self.limit:
                        raise DescriptionError(
                            f"{shown}: larger than {self.limit >> 20} MB; name it on the command "
                            "line, then it is read where it lies, or raise --upload-limit"
                        )
                    target.write(chunk)
            file = self._free_name(place, kind, ending, part)
        finally:
            part.unlink(missing_ok=True)
        await self.desk.ask("add", file=f"files/{file}", name=shown)
        return f"files/{file}"

    @staticmethod
    def _free_name(place: Path, kind: str, ending: str, part: Path) -> str:
        number = 1
        while True:
            name = f"{kind}-{number}{ending}"
            try:
                os.link(part, place / name)
            except FileExistsError:
                number += 1
            except OSError:  # a file system without links
                if (place / name).exists():
                    number += 1
                    continue
                os.replace(part, place / name)
                return name
            else:
                return name


# ---------------------------------------------------------------- requests


def make_app(studio: Studio, robot: str = "", logs: tuple[str, ...] = ()) -> Any:
    """Return the application, without its guard."""
    Starlette = optional("starlette.applications").Starlette
    Route = optional("starlette.routing").Route

    @asynccontextmanager
    async def alive(_: Any) -> AsyncIterator[None]:
        first = asyncio.create_task(studio.begin(robot, logs))
        try:
            yield
        finally:
            first.cancel()
            await studio.close()

    handlers = _Handlers(studio)
    routes = [
        Route(path, _answering(getattr(handlers, name)), methods=[method])
        for method, path, name in (
            ("GET", "/", "page"),
            ("GET", "/page/{name}", "asset"),
            ("GET", "/events", "events"),
            ("GET", "/ask/{task}", "ask"),
            ("GET", "/study.toml", "study"),
            ("GET", "/notes/{name}", "note"),
            ("GET", "/results/{step}/{path:path}", "result"),
            ("POST", "/act", "act"),
            ("POST", "/keep", "keep"),
            ("POST", "/work", "work"),
            ("POST", "/cancel", "cancel"),
            ("PUT", "/upload", "upload"),
        )
    ]
    return Starlette(routes=routes, lifespan=alive)


def _answering(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a handler whose errors are short texts."""
    text = optional("starlette.responses").PlainTextResponse

    async def answer(request: Request) -> Any:
        try:
            return await handler(request)
        except PermissionError as error:
            return text(str(error), status_code=409)
        except MinidynError as error:
            return text(str(error), status_code=400)
        except (KeyError, TypeError, ValueError) as error:
            what = f"a request that the studio does not know ({type(error).__name__})"
            return text(what, status_code=400)

    return answer


class _Handlers:
    """What is done for each request."""

    _ASKED = ("choices", "robot", "base", "pose", "columns", "signals", "frames")

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.responses = optional("starlette.responses")

    async def page(self, request: Request) -> Any:
        return self._asset("index.html")

    async def asset(self, request: Request) -> Any:
        return self._asset(request.path_params["name"])

    def _asset(self, name: str) -> Any:
        kind = _ASSETS.get(Path(name).suffix, "")
        folder = "minidyn.pages" if name == "style.css" else "minidyn.app.studio.page"
        source = files(folder).joinpath(name)
        if not kind or "/" in name or "\\" in name or not source.is_file():
            return self._text("no such file", 404)
        return self.responses.Response(source.read_bytes(), media_type=kind)

    async def events(self, request: Request) -> Any:
        name = request.query_params["window"]
        if not _NAME.fullmatch(name):
            raise ValueError(name)
        events = self.studio.listen(name)
        return self.responses.StreamingResponse(events, media_type="text/event-stream")

    async def ask(self, request: Request) -> Any:
        task = request.path_params["task"]
        if task not in self._ASKED:
            return self._text("no such request", 404)
        given = {name: json.loads(value) for name, value in request.query_params.items()}
        answer, data = await self.studio.desk.ask(task, **given)
        body = frame(answer["value"], data)
        return self.responses.Response(body, media_type="application/octet-stream")

    async def act(self, request: Request) -> Any:
        given = await self._body(request)
        self.studio.require_writer(given["window"])
        await self.studio.act(str(given["name"]), dict(given["given"]))
        return self._text("done")

    async def keep(self, request: Request) -> Any:
        given = await self._body(request)
        self.studio.require_writer(given["window"])
        self.studio.state = (await self.studio.desk.ask("keep"))[0]["value"]
        self.studio.tell()
        return self._text("kept")

    async def work(self, request: Request) -> Any:
        given = await self._body(request)
        self.studio.require_writer(given["window"])
        task = given["task"]
        if task not in ("check", "run", "read", "compare"):
            raise ValueError(task)
        self.studio.start(task, {"only": list(given.get("only", []))} if task == "run" else {})
        return self._text("started")

    async def cancel(self, request: Request) -> Any:
        given = await self._body(request)
        self.studio.require_writer(given["window"])
        await self.studio.cancel()
        return self._text("cancelled")

    async def upload(self, request: Request) -> Any:
        query = request.query_params
        self.studio.require_writer(query["window"])
        file = await self.studio.take(query["kind"], query["name"], request.stream())
        return self._text(file)

    async def study(self, request: Request) -> Any:
        return self._file(self.studio.folder / STUDY, download=True)

    async def note(self, request: Request) -> Any:
        name = request.path_params["name"]
        if name not in PAGES:
            return self._text("no such page", 404)
        return self._file(self.studio.folder / NOTES / name)

    async def result(self, request: Request) -> Any:
        """Give one file of a result: those that the state lists, nothing else."""
        step, path = request.path_params["step"], request.path_params["path"]
        listed = {one["name"]: one.get("files", []) for one in self.studio.state["results"]}
        if path not in listed.get(step, []):
            return self._text("no such result", 404)
        output = self.studio.state["tables"]["study"]["output"]
        download = "download" in request.query_params
        return self._file(self.studio.folder / output / step / path, download)

    def _file(self, path: Path, download: bool = False) -> Any:
        if not path.is_file():
            return self._text("no such file", 404)
        is_page = path.suffix == ".html" and not download
        headers = {"content-security-policy": FRAMED} if is_page else {}
        return self.responses.FileResponse(
            path,
            media_type="text/html" if is_page else "application/octet-stream",
            filename=None if is_page else path.name,
            headers=headers,
        )

    def _text(self, text: str, status: int = 200) -> Any:
        return self.responses.PlainTextResponse(text, status_code=status)

    async def _body(self, request: Request) -> dict[str, Any]:
        data = b""
        async for chunk in request.stream():
            data += chunk
            if len(data) > BODY_LIMIT:
                raise DescriptionError(f"a request of more than {BODY_LIMIT >> 10} kB")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise TypeError("object")
        return found


# ---------------------------------------------------------------- the server


def serve(
    studio: Studio,
    host: str,
    port: int,
    robot: str,
    logs: tuple[str, ...],
    ready: Callable[[str], None],
    browser: bool,
) -> None:
    """Serve a study until Ctrl-C; `ready` is given the address that opens it."""
    uvicorn = optional("uvicorn")
    (studio.folder / NOTES).mkdir(parents=True, exist_ok=True)
    app = Guard(make_app(studio, robot, logs), host)
    with _bound(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        name = "127.0.0.1" if host in ("0.0.0.0", "::") else name  # noqa: S104 - compared
        address = f"http://{name}:{listening.getsockname()[1]}/?token={app.token}"
        ready(address)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(
            app,
            ws="none",
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        ends = server.handle_exit

        def handle_exit(number: int, place: Any) -> None:
            studio.leave()  # else the server waits for pages that listen
            ends(number, place)

        server.handle_exit = handle_exit
        with suppress(KeyboardInterrupt):  # which the server raises again when it has ended
            server.run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket at an address; one that is taken is an error that says so."""
    try:
        (family, kind, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.socket(family, kind)
        if os.name != "nt":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)  # who opens the address before the server runs waits
    except OSError as error:
        raise DescriptionError(
            f"{host}:{port}: {error.strerror or error}; choose another port with --port, or none"
        ) from None
    return made
