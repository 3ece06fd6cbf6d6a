"""Files from strangers, thousands a minute.

None may crash, hang, take a gigabyte or raise an error of somebody else.

    python tools/fuzz.py --seconds 300           # all formats in turn; goes on where the last run ended
    python tools/fuzz.py --formats urdf,csv      # some formats
    python tools/fuzz.py --formats chain         # odd logs through check, identify, ..., export
    python tools/fuzz.py --again urdf 1234       # one input again, with its traceback

Input number k of a format is always the same file: a seed (tests/fuzz/corpus.py makes them) changed
by structure or by bytes (tests/fuzz/mutations.py). Batches run in child processes that are watched:
10 s of processor time for one file is a hang, 1 GB is too much memory. Counts are kept in
build/fuzz/counts.json, files that broke something beside it.

What costs time and finds nothing is left out: files lie in memory, logs have 12 samples, and
rosbags parses a message definition and compiles the code that it writes for it once for each text.
"""  # noqa: E501

from __future__ import annotations

import argparse
import functools
import gc
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))

import chains  # noqa: E402
import corpus  # noqa: E402
import mutations  # noqa: E402

import minidyn as md  # noqa: E402
from minidyn import errors  # noqa: E402
from minidyn.app.study.file import read_study  # noqa: E402
from minidyn.recording.read.mapping import SignalMap  # noqa: E402

CHAIN = "chain"  # odd logs that are walked through check, identify, validate, report and export
ENDINGS = {**corpus.ENDINGS, CHAIN: chains.ENDING}
HANG = 10.0  # s of processor time for one file
HANG_CHAIN = 60.0  # ... for a whole chain
WAIT = 300.0  # s on the clock
MEMORY = 1_000_000  # kB, besides what the fuzzer itself takes
BATCH = 1000  # files of one child process
BATCH_CHAIN = 250  # ... which compiles anew what chains share
BAD = ("unforeseen", "foreign", "crash", "hang", "memory")
"""Outcomes that must not be; the others are "read" and "told"."""


@dataclass
class Outcome:
    """What became of one file."""

    what: str
    detail: str = ""


class Fuzzer:
    """Seeds, a scratch folder, and what is done with a file of each format."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch = folder, scratch
        if not (folder / "corpus" / "estimate").is_dir():
            corpus.make(folder / "corpus")
        self.seeds = {kind: mutations.seeds(folder / "corpus", kind) for kind in corpus.ENDINGS}
        self.robot = md.load("two_link")
        self.log = scratch / "log.csv"
        self.log.write_bytes((folder / "corpus" / "csv" / "own.csv").read_bytes())
        _quick_libraries()
        gc.collect()
        gc.freeze()  # what is here is never looked at again
        self.own = _peak()
        self.plain = sorted((folder / "corpus" / "urdf").glob("*.urdf"))[-1].read_bytes()

    def made(self, kind: str, number: int) -> tuple[bytes, str]:
        """Return an input by its number, and how it was made."""
        if kind == CHAIN:
            return chains.made(number)
        rng = random.Random(f"{kind}:{number}")  # noqa: S311 - no secret
        return mutations.mutated(kind, rng.choice(self.seeds[kind]), rng)

    def attempt(self, kind: str, data: bytes, turn: int = 0) -> None:
        """Read a file as its format asks for; now and then go on with what was read."""
        path = self.scratch / f"{os.getpid()}{ENDINGS[kind]}"
        path.write_bytes(data)
        if kind == CHAIN:
            chains.run(path, self.scratch, turn)
        elif kind in ("urdf", "mjcf", "toml", "side"):
            if kind == "side":
                path = self.scratch / f"{os.getpid()}.urdf"
                path.write_bytes(self.plain)
                path.with_name(path.name + ".minidyn.toml").write_bytes(data)
            robot = md.load(path)
            if turn % 20 == 0 and robot.n < 20:
                md.save(robot, self.scratch / f"{os.getpid()}.again.toml")
                md.load(self.scratch / f"{os.getpid()}.again.toml")
        elif kind == "study":
            read_study(path)
        elif kind == "mapping":
            SignalMap.of({}, path)
            md.read_recording(self.log, self.robot, mapping=path)
        elif kind == "estimate":
            md.load_estimate(path)
        elif turn % 10 == 0:
            for tile in md.read_recording(path, self.robot, lazy=True).tiles(5):
                len(tile)
        else:
            md.read_recording(path, self.robot)

    def outcome(self, kind: str, data: bytes, turn: int = 0) -> Outcome:
        """Return what became of a file, errors of all kinds included."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.attempt(kind, data, turn)
        except errors.Unforeseen as error:
            return Outcome("unforeseen", _where(error.__cause__ or error))
        except md.MinidynError:
            return Outcome("told")
        except Exception as error:
            return Outcome("foreign", _where(error))
        used = _peak() - self.own
        return Outcome("memory", f"{used} kB") if used > MEMORY else Outcome("read")

    def batch(
        self, kind: str, first: int, count: int
    ) -> tuple[Counter[str], list[tuple[int, str, str]]]:
        """Run inputs in child processes.

        Return counts by outcome, and the inputs that broke something.
        """
        counts: Counter[str] = Counter()
        broken: list[tuple[int, str, str]] = []
        number, end = first, first + count
        while number < end:
            shared = mmap.mmap(-1, 8)
            shared[:] = struct.pack("q", number)
            results = self.scratch / "results.json"
            results.unlink(missing_ok=True)
            child = os.fork()
            if not child:
                self._child(kind, number, end, shared, results)
            why = _watch(child, shared, HANG_CHAIN if kind == CHAIN else HANG)
            at = struct.unpack("q", shared[:])[0]
            for line in results.read_text().splitlines() if results.exists() else []:
                one, what, how, detail = json.loads(line)
                counts[what] += 1
                counts[f"by {how}"] += 1
                if what in BAD:
                    broken.append((one, what, detail))
            if why:
                counts[why[0]] += 1
                broken.append((at, *why))
            number = at + 1
        return counts, broken

    def _child(self, kind: str, first: int, end: int, shared: mmap.mmap, results: Path) -> None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        errors.details_of = lambda error: ""  # no file for each
        pages = (
            int(Path("/proc/self/statm").read_text().split()[0])
            if os.path.exists("/proc/self/statm")
            else 0
        )
        most = pages * resource.getpagesize() + 3_000_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        status = 0
        with results.open("w", buffering=1) as stream:
            for number in range(first, end):
                shared[:] = struct.pack("q", number)
                try:
                    data, how = self.made(kind, number)
                    found = self.outcome(kind, data, number)
                    stream.write(json.dumps([number, found.what, how, found.detail]) + "\n")
                    if found.what == "memory":  # what was used once is not given back
                        break
                except BaseException:
                    status = 3
                    break
        os._exit(status)


def _in_memory() -> str | None:
    """A folder that is no disk, where the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def _quick_libraries() -> None:
    """Let rosbags parse each definition of a message once and compile each Python text that it
    writes once.
    """
    from rosbags.highlevel import anyreader
    from rosbags.serde import utils
    from rosbags.typesys import store

    @functools.lru_cache(maxsize=1000)
    def made(code: str) -> dict[str, object]:
        names: dict[str, object] = {"__name__": "rosbags.usertypes"}
        exec(code, names)  # noqa: S102
        return names

    for module in (utils, store):
        module.exec = lambda code, names: names.update(made(code))
    if not hasattr(anyreader.get_types_from_msg, "cache_info"):
        anyreader.get_types_from_msg = functools.lru_cache(maxsize=1000)(
            anyreader.get_types_from_msg
        )


def _peak() -> int:
    """Most memory that this process has had, kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _where(error: BaseException) -> str:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "minidyn" in frame.filename
    ]
    last = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {last}: {str(error)[:120]}"


def _watch(child: int, shared: mmap.mmap, hang: float = HANG) -> tuple[str, str] | None:
    """Wait for a child; end it where one input takes too long.

    Return what went wrong, None where nothing did.
    """
    current, begun, clock = -1, 0.0, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        used = _processor_time(child)
        if shared[:] != struct.pack("q", current):
            current, begun, clock = struct.unpack("q", shared[:])[0], used, time.monotonic()
        elif used - begun > hang or time.monotonic() - clock > WAIT:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang", f"over {used - begun:.0f} s of processor time"
        time.sleep(0.05)
    if os.WIFSIGNALED(status):
        return "crash", f"signal {os.WTERMSIG(status)}"
    return ("crash", f"exit {os.WEXITSTATUS(status)}") if os.WEXITSTATUS(status) else None


def _processor_time(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:  # no such folder on this system: the clock alone counts
        return 0.0


def run(
    fuzzer: Fuzzer, formats: list[str], seconds: float, inputs: int, first: dict[str, int]
) -> Iterator[tuple[str, Counter[str], list[tuple[int, str, str]]]]:
    """Yield (format, counts, what broke) batch by batch, formats in turn, until time or inputs are
    over.
    """
    end, left = time.monotonic() + seconds, inputs
    while time.monotonic() < end and left > 0:
        for kind in formats:
            size = min(BATCH_CHAIN if kind == CHAIN else BATCH, left)
            if size < 1 or time.monotonic() > end:
                return
            counts, broken = fuzzer.batch(kind, first.get(kind, 0), size)
            first[kind] = first.get(kind, 0) + size
            left -= size
            yield kind, counts, broken


def main() -> int:
    """Run, print a table, keep the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--formats", default=",".join(ENDINGS))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--again", nargs=2, metavar=("FORMAT", "NUMBER"))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_in_memory()) as scratch:
        tempfile.tempdir = scratch  # what minidyn itself writes while it reads
        fuzzer = Fuzzer(given.folder, Path(scratch))
        if given.again:
            kind, number = given.again[0], int(given.again[1])
            data, how = fuzzer.made(kind, number)
            target = given.folder / f"{kind}-{number}{ENDINGS[kind]}"
            target.write_bytes(data)
            print(f"{target}, by {how}")
            fuzzer.attempt(kind, data, number)
            return 0
        kept = given.folder / "counts.json"
        total = json.loads(kept.read_text()) if kept.exists() else {}
        first = {kind: counts.get("next", 0) for kind, counts in total.items()}
        bad = 0
        for kind, counts, broken in run(
            fuzzer, given.formats.split(","), given.seconds, given.inputs, first
        ):
            here = total.setdefault(kind, {})
            for what, number in counts.items():
                here[what] = here.get(what, 0) + number
            here["next"] = first[kind]
            for number, what, detail in broken:
                bad += 1
                print(f"{kind} {number}: {what}: {detail}", flush=True)
                (given.folder / f"{kind}-{number}{ENDINGS[kind]}").write_bytes(
                    fuzzer.made(kind, number)[0]
                )
            temporary = kept.with_suffix(".new")
            temporary.write_text(json.dumps(total, indent=1))
            temporary.replace(kept)
    columns = ["read", "told", *BAD, "by structure"]
    print(f"{'format':10}" + "".join(f"{name:>13}" for name in columns))
    for kind, counts in [
        *total.items(),
        ("all", sum((Counter(one) for one in total.values()), Counter())),
    ]:
        print(f"{kind:10}" + "".join(f"{counts.get(name, 0):13}" for name in columns))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
