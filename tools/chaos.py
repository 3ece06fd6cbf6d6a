"""Faults at random moments.

Results must be whole or absent, earlier ones intact, and the next run tidy up.

    python tools/chaos.py --kills 1000        # kill -9 during identify, run, report, save and convert
    python tools/chaos.py --seed 7 --kills 20

Beside kills: a disk that is full (at some size of a file, or at some file that is opened), folders
that may not be written, a folder that is removed meanwhile, two processes on one study. Counts are
printed; exit code 1 where a fault left something broken.
"""  # noqa: E501

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np

import minidyn as md
from minidyn.app.study.store import PROVENANCE
from minidyn.recording.read.places import content_hash

STUDY = """[robot]
file = "two_link"
[[log]]
name = "a"
files = ["log.csv"]
[base]
method = "qr"
[identify]
logs = ["a"]
friction = []
rotor_inertia = false
force = true
[report]
code = false
"""


KILLED = (
    "identify",
    "save",
    "report",
    "convert",
    "save",
    "run",
    "convert",
    "report",
    "save",
    "convert",
)
"""What is killed in turn; what takes milliseconds more often."""


class Broken(Exception):
    """A fault left something that must not be."""


class Scene:
    """A folder with inputs and the results of an earlier run, and work that makes new ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        robot = md.load("two_link")
        for name, count in (("log.csv", 200), ("next.csv", 230)):
            t = np.arange(count) / 100
            q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
            md.Recording(
                t, q, md.inverse_dynamics(robot, q, dq, ddq), joint_names=robot.joint_names
            ).save(folder / name)
        (folder / "study.toml").write_text(STUDY)
        (folder / "notes.txt").write_text("mine")
        self.inputs = {path.name: path.read_bytes() for path in folder.iterdir()}
        for work in self.works.values():
            with (
                suppress(SystemExit),
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
            ):
                work()  # here first: what is imported and compiled now, the processes to come have
            if self.run(work) != 0:
                raise Broken(f"the work fails without a fault: {self.printed()[-500:]}")
        self.earlier = {count: folder.parent / f"{folder.name}.{count}" for count in (0,)}
        shutil.copytree(folder, self.earlier[0])

    @property
    def works(self) -> dict[str, Callable[[], None]]:
        """What is disturbed, by name."""
        steps = (self.identify, self.study, self.report, self.save, self.convert)
        return dict(zip(("identify", "run", "report", "save", "convert"), steps))

    def identify(self) -> None:
        """Identify into a folder that has results."""
        words = [
            "--friction",
            "none",
            "--no-rotor-inertia",
            "--force",
            "--output",
            str(self.folder / "out"),
        ]
        self._shell("identify", "two_link", str(self.folder / "next.csv"), *words)

    def study(self) -> None:
        """Run a study again, all of its steps."""
        self._shell("run", str(self.folder / "study.toml"), "--rerun")

    def report(self) -> None:
        """Write a report over an earlier one."""
        words = [str(self.folder / "next.csv"), "--output", str(self.folder / "page.html")]
        self._shell("report", str(self.folder / "out" / "estimate.json"), *words)

    def save(self) -> None:
        """Save a robot, with its side file, and a recording."""
        robot = md.load("two_link")
        md.save(
            robot.with_parameters(random.random() * robot.parameters),  # noqa: S311
            self.folder / "robot.urdf",
        )
        md.read_recording(self.folder / "next.csv", robot).save(self.folder / "copy.npz")

    def convert(self) -> None:
        """Write two logs as Parquet over earlier ones."""
        md.convert(
            [self.folder / name for name in ("log.csv", "next.csv")],
            self.folder / "lake",
            "two_link",
        )

    def _shell(self, *words: str) -> None:
        from minidyn.app.cli.main import main

        main(list(words), prog_name="minidyn")

    def start(self, work: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
        """Do the work in a process of its own and return its number.

        `printed` is what it prints.
        """
        self._out, log = os.pipe()  # no file: that may be the one for which there is no room
        child = os.fork()
        if child:
            os.close(log)
            return child
        code = 0
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = sys.stderr = os.fdopen(
                log, "w", buffering=1
            )  # also where a test has put others
            before()
            work()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except md.MinidynError:
            code = 2
        except BaseException:
            code = 99
            with suppress(BaseException):  # the disk is full for this, too
                traceback.print_exc()
        finally:
            os._exit(code)

    def printed(self) -> str:
        """Return what the work that was started last has printed; it must have ended."""
        with os.fdopen(self._out, errors="replace") as stream:
            return stream.read()

    def run(self, work: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
        """Do the work to its end and return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.start(work, before), 0)[1])

    def check(self, *, tidy: bool = False) -> None:
        """Raise where an input is changed, a result is a mixture, or with `tidy` where something is
        left over.
        """
        for name, data in self.inputs.items():
            if (self.folder / name).read_bytes() != data:
                raise Broken(f"{name} is changed")
        out = self.folder / "out"
        summary = json.loads((out / "result.json").read_text())
        if md.load_estimate(out / "estimate.json").samples != summary["samples"]:
            raise Broken("out: a mixture of two results")
        for name in summary["files"]:
            if not (out / name).stat().st_size:
                raise Broken(f"out/{name} is empty")
        for page in (out / "report.html", self.folder / "page.html"):
            if not page.read_text(encoding="utf-8").rstrip().endswith("</html>"):
                raise Broken(f"{page.name} is cut off")
        for step in ("base", "identify", "report"):
            record = json.loads((self.folder / "study" / step / PROVENANCE).read_text())
            for name, old in record["results"].items():
                if content_hash(self.folder / "study" / step / name) != old:
                    raise Broken(f"study/{step}/{name} is not that of its record")
        md.load(self.folder / "robot.urdf")
        md.read_recording(self.folder / "copy.npz", "two_link")
        for name, count in (("log", 200), ("next", 230)):
            part = self.folder / "lake" / "robot=two_link" / f"log={name}" / "part-0.parquet"
            if len(md.read_recording(part, "two_link")) != count:
                raise Broken(f"{part.name} of {name} is not whole")
        if tidy:
            left = list(self.folder.rglob(".*"))
            if left:
                raise Broken(f"left over: {left[0]}")

    def restore(self) -> None:
        """Bring back the results of the earlier run."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.earlier[0], self.folder)


def kills(scene: Scene, count: int, rng: random.Random) -> Counter[str]:
    """Kill each work in turn at random moments.

    After each, results are whole and the next run tidies up.
    """
    seen: Counter[str] = Counter()
    lasts = {}
    for name, work in scene.works.items():
        begin = time.monotonic()
        scene.run(work)
        lasts[name] = time.monotonic() - begin
    for number in range(count):
        name = KILLED[number % len(KILLED)]
        work = scene.works[name]
        child = scene.start(work)
        time.sleep(rng.uniform(0.0, 1.1 * lasts[name]))
        os.kill(child, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen[f"{name}: {'killed' if ended < 0 else 'through'}"] += 1
        scene.check()
        if number % 7 == 6 or number >= count - len(scene.works):
            if scene.run(work) != 0:
                raise Broken(f"{name} fails after a kill: {scene.printed()[-500:]}")
            scene.check()
    for work in scene.works.values():
        scene.run(work)
    scene.check(tidy=True)
    return seen


def full_disk(scene: Scene, rng: random.Random, count: int) -> Counter[str]:
    """No file may grow beyond some size, or the n-th file that is to be written cannot be."""
    seen: Counter[str] = Counter()
    for number in range(count):
        name = list(scene.works)[number % len(scene.works)]
        before = (
            _limited(rng.choice([0, 1, 100, 1000, 4096, 10_000, 50_000]))
            if number % 2
            else _refused(rng.randrange(12))
        )
        code = scene.run(scene.works[name], before)
        text = scene.printed()
        if code not in (0, 2):
            raise Broken(f"{name} on a full disk ends with {code}: {text[-600:]}")
        seen["told" if code else "fitted"] += 1
        scene.check()
    return seen


def _limited(size: int) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing is an error
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def _refused(number: int) -> Callable[[], None]:
    left = [number]

    def refuse(event: str, words: tuple[object, ...]) -> None:
        if event == "open" and isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), words[0])

    return lambda: sys.addaudithook(refuse)


def read_only(scene: Scene) -> Counter[str]:
    """A user who may read but not write."""
    if os.geteuid() != 0:
        return Counter({"skipped, needs another user": 1})
    seen: Counter[str] = Counter()
    for place in (
        scene.folder.parent.parent,
        scene.folder.parent,
        scene.folder,
        *scene.folder.rglob("*"),
    ):
        if scene.folder in (place, *place.parents) or place in scene.folder.parents:
            place.chmod(place.stat().st_mode | (0o055 if place.is_dir() else 0o044))
    for name, work in scene.works.items():
        code = scene.run(work, lambda: os.setuid(65534))
        text = scene.printed()
        if code != 2 or "Traceback" in text:
            raise Broken(f"{name} without permission ends with {code}: {text[-400:]}")
        seen["told"] += 1
        scene.check()
    return seen


def removed(scene: Scene, rng: random.Random, count: int) -> Counter[str]:
    """The folder of the results is removed while they are made: an error, or they are there."""
    seen: Counter[str] = Counter()
    for _ in range(count):
        child = scene.start(scene.identify)
        time.sleep(rng.uniform(0.0, 1.0))
        shutil.rmtree(scene.folder / "out", ignore_errors=True)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = scene.printed()
        if code not in (0, 2) or "Traceback" in text:
            raise Broken(f"identify ends with {code}: {text[-400:]}")
        seen["there" if (scene.folder / "out" / "result.json").exists() else "told"] += 1
        scene.restore()
    return seen


def two_at_once(scene: Scene, count: int) -> Counter[str]:
    """Two processes on one study: each is through or told of the other, and results are whole."""
    seen: Counter[str] = Counter()
    for _ in range(count):
        children = [scene.start(scene.study) for _ in range(2)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if not set(codes) <= {0, 2} or 0 not in codes:
            raise Broken(f"two processes on one study end with {codes}: {scene.printed()[-400:]}")
        seen[f"{codes.count(0)} through"] += 1
        scene.check()
    return seen


def main() -> int:
    """Run all faults and print what came of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)  # noqa: S311 - no secret
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - no disk, where there is one
    with tempfile.TemporaryDirectory(dir=quick) as folder:
        scene = Scene(Path(folder) / "scene")
        few = max(8, given.kills // 10)
        try:
            for name, fault in {
                "kill -9": lambda: kills(scene, given.kills, rng),
                "full disk": lambda: full_disk(scene, rng, few),
                "read-only": lambda: read_only(scene),
                "removed meanwhile": lambda: removed(scene, rng, max(3, few // 4)),
                "two processes": lambda: two_at_once(scene, max(3, few // 4)),
            }.items():
                print(f"{name}: {dict(fault())}", flush=True)
        except Broken as error:
            print(f"broken: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
