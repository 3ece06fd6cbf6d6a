"""What verbs share: the argument ROBOT and options that mean the same everywhere."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

import minidyn
from minidyn.errors import MinidynError
from minidyn.text import plain

Files = tuple[str, ...]
F = TypeVar("F", bound=Callable[..., object])
if TYPE_CHECKING:
    from minidyn.model.robot import Robot

    _Word = click.ParamType[str]
else:  # generic only since click 8.4
    _Word = click.ParamType


class OneOf(_Word):
    """A word whose meaning the library checks.

    The shell completes it from a list that is fetched when asked.
    """

    def __init__(
        self, words: Callable[[], Iterable[str]], name: str = "word", files: bool = False
    ) -> None:
        self._words, self.name, self._files = words, name, files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin so, and ask the shell for files where they are taken, too."""
        files = [CompletionItem(incomplete, type="file")] if self._files else []
        return [
            *(CompletionItem(word) for word in self._words() if word.startswith(incomplete)),
            *files,
        ]


class Gain(click.ParamType):  # type: ignore[type-arg]
    """A number, one for each joint (20,20,10), or the rows of a matrix (20,1;1,20).

    The library checks the rest.
    """

    name = "gain"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number, a list or a list of lists."""
        try:
            rows = [[float(word) for word in row.split(",")] for row in str(value).split(";")]
        except ValueError:
            self.fail(
                f"{value!r}: expected a number, numbers with commas, or rows of a matrix with "
                "semicolons"
            )
        return rows if len(rows) > 1 else rows[0] if len(rows[0]) > 1 else rows[0][0]


def _robots() -> tuple[str, ...]:
    from minidyn.formats.load import robots

    return robots()


ROBOT = OneOf(_robots, "robot", files=True)  # a built-in name or a file


class Three(click.ParamType):  # type: ignore[type-arg]
    """Three numbers with commas; with `degrees`, "90deg" is an angle in degrees."""

    def __init__(self, name: str, degrees: bool = False) -> None:
        self.name, self._degrees = name, degrees

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a tuple of three numbers."""
        words = str(value).split(",")
        number = angle if self._degrees else float
        try:
            numbers = tuple(number(word.strip()) for word in words)
        except ValueError:
            numbers = ()
        if len(numbers) != 3:
            self.fail(f"{value!r}: expected {self.name}, three numbers with commas")
        return numbers


def angle(word: str) -> float:
    """Return a number, or radians of one in degrees: "90deg"."""
    return math.radians(float(word[:-3])) if word.endswith("deg") else float(word)


def joined_numbers(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with "--gravity 0 0 9.81" as "--gravity 0,0,9.81"."""
    made: list[str] = []
    for word in words:
        after = len(made) > 1 and made[-2] in ("--gravity", "--mount") and made[-1].count(",") < 2
        if after and _NUMBER.fullmatch(word):
            made[-1] += f",{word}"
        else:
            made.append(word)
    return made


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?(deg)?", re.IGNORECASE)


@dataclass(frozen=True)
class RobotSource:
    """A robot as the command line names it."""

    name: str  # built-in name or file
    changes: Mapping[str, Any] = field(default_factory=dict)  # options of `md.load` that were given

    def load(self) -> Robot:
        """Return the robot."""
        from minidyn.formats.load import load

        return load(self.name, **self.changes)


def _locks(context: click.Context, parameter: click.Parameter, words: Files) -> Any:
    """Return joints to lock as `md.load` takes them from NAME or NAME=VALUE; None: not given."""
    made: dict[str, float | None] = {}
    for word in words:
        name, equals, value = word.rpartition("=") if "=" in word else (word, "", "")
        try:
            made[name] = angle(value) if equals else None
        except ValueError:
            raise click.BadParameter(
                f"{word!r}: expected NAME or NAME=VALUE, such as finger_left=0.02 or wrist=90deg"
            ) from None
    return made or None


_CHANGES = (
    click.option(
        "--gravity",
        type=Three("x,y,z"),
        metavar="X,Y,Z",
        help="Another gravity in the world frame, m/s².",
    ),
    click.option(
        "--mount",
        type=Three("roll,pitch,yaw", degrees=True),
        metavar="R,P,Y",
        help="Roll, pitch, yaw by which the base is turned in the world, rad, or as in 180deg,0,0.",
    ),
    click.option(
        "--lock",
        multiple=True,
        callback=_locks,
        metavar="NAME[=VALUE]",
        help=(
            "A joint that does not move, or a pattern, at VALUE (rad, m, 90deg; default: 0, or the "
            "middle of its limits); repeat."
        ),
    ),
    click.option(
        "--keep-joints",
        multiple=True,
        callback=lambda context, parameter, words: list(words) or None,
        metavar="NAME",
        help="A joint that moves, or a pattern such as 'arm_*'; the others are locked; repeat.",
    ),
    click.option(
        "--free-base",
        is_flag=True,
        default=None,
        help="The robot's base moves freely in the world (docs/free-base.md).",
    ),
    click.option(
        "--xacro-arg",
        "xacro_args",
        multiple=True,
        callback=lambda context, parameter, words: _pairs(words),
        metavar="NAME=VALUE",
        help="An argument of a .xacro file; repeat.",
    ),
)


def _pairs(words: Files) -> dict[str, str] | None:
    """Return {name: value} of words NAME=VALUE; None: not given."""
    made = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{word!r}: expected NAME=VALUE, such as ur_type=ur10e")
        made[name] = value
    return made or None


def _with_changes(command: F) -> F:
    """Add the options that change a robot; the verb gets `robot` as a RobotSource, or None."""

    @wraps(command)
    def run(*args: Any, robot: str | None, **more: Any) -> Any:
        changes = given({name: more.pop(name) for name in _ROBOT_OPTIONS})
        if robot is None and changes:
            option = next(iter(changes)).replace("_", "-")
            raise click.UsageError(f"--{option} goes with --robot ROBOT")
        return command(*args, robot=None if robot is None else RobotSource(robot, changes), **more)

    made: Any = run
    for option in reversed(_CHANGES):
        made = option(made)
    return made  # type: ignore[no-any-return]


_ROBOT_OPTIONS = ("gravity", "mount", "lock", "keep_joints", "free_base", "xacro_args")


def robot_argument(command: F) -> F:
    """Add the argument ROBOT and what may be changed about it; the verb gets a RobotSource."""
    return click.argument("robot", type=ROBOT)(_with_changes(command))


def robot_option(help: str) -> Callable[[F], F]:
    """Return the option --robot with what may be changed about it."""

    def decorate(command: F) -> F:
        return click.option("--robot", type=ROBOT, help=help)(_with_changes(command))

    return decorate


logs_argument = click.argument("logs", nargs=-1, required=True, type=click.Path())
estimate_argument = click.argument("estimate", type=click.Path())
json_option = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
require_option = click.option(
    "--require",
    type=click.Choice(["pass"]),
    help="Exit with code 3 unless the verdict is good: no error, no warning.",
)
validate_option = click.option(
    "--validate",
    "test",
    multiple=True,
    type=click.Path(),
    help="A log that is not fitted, to test on; repeat.",
)


def option_of(function: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option, named as for click, that sets a keyword of a library function.

    Help shows its default. Where the option is not given, the function's default counts. The
    function is named as in "simulation.simulate: simulate": help and completion answer at once
    because the library's text is read, not imported.
    """
    option = click.Option(list(names), **settings)
    default = default_of(function, str(option.name))
    shown = ("no", "yes")[default] if isinstance(default, bool) else str(default)
    return click.option(
        *names, default=None, show_default=default not in (None, ()) and shown, **settings
    )


@cache
def _source(module: str) -> list[ast.stmt]:
    path = Path(minidyn.__file__).parent / f"{module.replace('.', '/')}.py"
    return ast.parse(path.read_text(encoding="utf-8")).body


def default_of(function: str, keyword: str) -> Any:
    """Return the default of a keyword of a function, or of a field of a record, "module:name" as
    its source has it.
    """
    module, _, name = function.partition(":")
    found: Any = next(
        node
        for node in _source(module)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    )
    if isinstance(found, ast.ClassDef):
        fields = {
            ast.unparse(n.target): n.value for n in found.body if isinstance(n, ast.AnnAssign)
        }
        value = fields[keyword]
    else:
        taken = found.args
        names, values = (*taken.args, *taken.kwonlyargs), (*taken.defaults, *taken.kw_defaults)
        value = values[[argument.arg for argument in names].index(keyword) - len(names)]
    return constant(module, value.id) if isinstance(value, ast.Name) else value and _plain(value)


def constant(module: str, name: str) -> Any:
    """Return a constant of a module as its source has it.

    A plain value, or a table with its values' descriptions.
    """
    for node in _source(module):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return _plain(node.value)  # type: ignore[attr-defined]
        if isinstance(node, ast.ImportFrom) and any(name == each.name for each in node.names):
            return constant(str(node.module).removeprefix("minidyn."), name)
    raise KeyError(f"{module}: {name}")


def _plain(node: ast.expr) -> Any:
    """Return a plain value, None where there is none.

    Of a call what is given first, of a table all keys.
    """
    if isinstance(node, ast.Call):
        return _plain(node.args[0])
    if isinstance(node, ast.Dict):
        return {
            _plain(key): _plain(value)
            for key, value in zip(node.keys, node.values)
            if key is not None
        }
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


measured_option = click.option(
    "--measured",
    multiple=True,
    metavar="NAME",
    help="A joint whose torque is measured, or a pattern; repeat. Default: all, and of a log those "
    "whose column says something.",
)

SETTINGS = "identification.settings:Settings"
"""Where every option of identification has its default."""


def settings_options(command: F) -> F:
    """Add the options that say how a model is fitted; the verb gets them as `settings`.

    Those of preparation, such as --cutoff, are in `log_options`.
    """

    @wraps(command)
    def run(*args: Any, settings: str | None, **more: Any) -> Any:
        from minidyn.app.job import friction_terms
        from minidyn.identification.settings import Settings, descriptions

        own = [name for name in descriptions() if name in more and name not in _OF_LOGS]
        options = given({name: more.pop(name) for name in own})
        if "friction" in options:
            options["friction"] = friction_terms(options["friction"])
        if options.get("prior") == "none":
            options["prior"] = False
        for name in ("force_terms", "forbid_terms", "measured"):
            if not options[name]:
                del options[name]
        known = Settings() if settings is None else Settings.from_toml(Path(settings))
        return command(*args, settings=known.replace(**options), **more)

    made: Any = run
    for option in (
        click.option(
            "--settings",
            metavar="FILE",
            type=click.Path(),
            help="TOML file with options of the fit (minidyn settings prints them all); options "
            "that are given here as well count before it.",
        ),
        option_of(
            SETTINGS,
            "--auto/--no-auto",
            help="Choose friction terms and smoothing widths from the data. --no-auto: plain "
            "terms, widths of the robot's file.",
        ),
        click.option(
            "--forbid-term",
            "forbid_terms",
            metavar="TERM",
            multiple=True,
            help="A term that the model does not have; also gravity_direction, warming, cutoff.",
        ),
        click.option(
            "--force-term",
            "force_terms",
            metavar="TERM",
            multiple=True,
            help="A term that the model has, whatever is chosen, or gravity_direction; repeat.",
        ),
        measured_option,
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


_OF_LOGS = ("cutoff", "delay", "resample", "time", "rate")
"""Options of preparation that `log_options` has, and one of reading with the same name."""


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the user gave: those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def check_figure(plot: str, read: Iterable[str]) -> None:
    """Refuse a figure's name that overwrites an input, or that ends like no format of figures."""
    from minidyn.files import check_outputs

    check_outputs([Path(plot)], read)
    if Path(plot).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise MinidynError(f"--plot {plain(plot)}: expected a name ending with .png, .svg or .pdf")


def output_option(default: str, what: str = "Folder to write into.") -> Callable[[F], F]:
    """Return the option --output."""
    return click.option(
        "--output", type=click.Path(), default=default, show_default=True, help=what
    )


def limits_of(file: str | None, words: tuple[str, ...]) -> list[Any] | None:
    """Return limits as `md.excite` takes them: a file, and "velocity=1.0", "velocity=1,1,2" or
    "velocity.elbow=0.5".
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        kind, _, joint = key.strip().partition(".")
        try:
            numbers = [float(part) for part in value.split(",")]
        except ValueError:
            numbers = []
        if not equals or not numbers or (joint and len(numbers) > 1):
            text = (
                f"--limit {plain(word)}: expected velocity=1.0, velocity=1,1,2 or "
                "velocity.elbow=0.5"
            )
            raise MinidynError(text)
        if joint:
            found.setdefault(kind, {})
            if not isinstance(found[kind], dict):
                raise MinidynError(
                    f"--limit {plain(kind)}: give it for all joints or joint by joint, not both"
                )
            found[kind][joint] = numbers[0]
        else:
            found[kind] = numbers if len(numbers) > 1 else numbers[0]
    return [one for one in (file, found) if one] or None


_MOTIONS = constant("excitation.robot_files", "FORMATS")
format_option = click.option(
    "--format",
    "formats",
    multiple=True,
    type=OneOf(lambda: _MOTIONS),
    help=f"{', '.join(_MOTIONS)}; repeat.",
)
"""Formats of files that a robot runs."""


def _pose(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    return [value] if isinstance(value, float) else value


home_option = click.option(
    "--home",
    type=Gain(),
    callback=_pose,
    help="Pose from which the files begin and to which they return.",
)
"""Where the robot is before and after."""


def kept_options(function: str) -> Callable[[F], F]:
    """Return the options of what motions must stay within; `function` is who takes them."""

    def decorate(command: F) -> F:
        for option in (
            click.option(
                "--obstacles",
                type=click.Path(),
                help="TOML file with tables [[obstacle]] (excitation.md).",
            ),
            option_of(
                function,
                "--floor/--no-floor",
                help="Keep away from a floor through the lowest point of the base.",
            ),
            option_of(
                function,
                "--clearance",
                type=float,
                help="Least distance of links, and from obstacles, m.",
            ),
            option_of(
                function,
                "--torque-share",
                type=float,
                help="Share of the effort limits that may be used.",
            ),
            click.option(
                "--limit",
                "limits",
                multiple=True,
                help="velocity=1.0, velocity=1,1,2 or velocity.elbow=0.5; repeat.",
            ),
            click.option(
                "--limits",
                "limits_file",
                metavar="FILE",
                type=click.Path(),
                help="TOML file with limits beside those of the robot's file (excitation.md).",
            ),
        ):
            command = option(command)
        return command

    return decorate


def _units(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return units as `md.read_recording` takes them.

    A word, a list of words, or {signal or joint: word}.
    """
    words = [word.strip() for word in (value or "").split(",") if word.strip()]
    if any("=" in word for word in words):
        pairs = [word.partition("=") for word in words]
        if not all(unit and name for name, _, unit in pairs):
            raise click.BadParameter(
                f"expected one unit, or units as in q=deg,tau=mA; got {value!r}"
            )
        return {name.strip(): unit.strip() for name, _, unit in pairs}
    return None if not words else words[0] if len(words) == 1 else words


def _known_torque(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return columns as `md.read_recording` takes them: a pattern, a list, or {joint: column}."""
    words = [word.strip() for word in (value or "").split(",") if word.strip()]
    if words and all("=" in word for word in words):
        return {
            joint.strip(): column.strip()
            for joint, _, column in (word.partition("=") for word in words)
        }
    return None if not words else words[0] if len(words) == 1 else words


def _per_joint(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return a number, a list of one for each joint, or {joint: number}; None: not given."""
    words = [word.strip() for word in (value or "").split(",") if word.strip()]
    try:
        if words and all("=" in word for word in words):
            pairs = (word.rpartition("=") for word in words)
            return {name.strip(): float(number) for name, _, number in pairs}
        numbers = [float(word) for word in words]
    except ValueError:
        raise click.BadParameter(
            f"expected a number, one for each joint with commas, or joint=number; got {value!r}"
        ) from None
    return None if not numbers else numbers[0] if len(numbers) == 1 else numbers


def inputs(*sources: str | RobotSource | None) -> list[str]:
    """Return the files that a verb reads, those beside robot files among them.

    Outputs must not replace them.
    """
    from minidyn.formats.side_file import SIDE  # not every verb writes
    from minidyn.recording.read.mapping import with_own_mapping

    names = (one.name if isinstance(one, RobotSource) else one for one in sources)
    parts = (part for name in names if name for part in with_own_mapping(name) if part)
    return [file for name in parts for file in (name, name + SIDE)]


def engine_options(command: F) -> F:
    """Add the options that say who reads logs on disk.

    The verb gets `executor` and `on_error`, None: not given.
    """

    @wraps(command)
    def run(
        *args: Any, workers: int | None, scheduler: str | None, dask: str | None, **more: Any
    ) -> Any:
        if workers is None and scheduler is None and dask is None:
            return command(*args, executor=None, **more)
        from minidyn.recording.engine import executor_of  # only where it is asked for

        with executor_of(workers, scheduler, dask) as executor:
            return command(*args, executor=executor, **more)

    made: Any = run
    for option in (
        option_of(
            "identification.identify:identify",
            "--on-error",
            type=OneOf(lambda: constant("recording.lazy", "ON_ERROR")),
            help="stop, or skip: files that cannot be read are left out and named; exit code 4.",
        ),
        click.option(
            "--dask",
            type=OneOf(lambda: ("local",)),
            help="local: start a Dask cluster on this machine.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Dask scheduler whose workers read the logs: tcp://...",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Processes of this machine that read the logs.",
        ),
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def keep_option(function: str, what: str) -> Callable[[F], F]:
    """Return the option of a folder in which work stays for the same call again."""
    return option_of(
        function, "--keep", type=click.Path(file_okay=False), help=f"Folder for {what}"
    )


def read_options(command: F) -> F:
    """Add the options of :func:`minidyn.read_recording`: how logs are read."""
    for option in (
        click.option(
            "--together/--no-together",
            default=None,
            help=(
                "Files are one run side by side, or runs of their own. Default: one where each "
                "has other signals."
            ),
        ),
        click.option("--topic", help="Topic of a bag. Default: the one with the robot's joints."),
        click.option(
            "--time-unit",
            help="Unit of the time column: s, ms, us or ns. Default: from its name or spacing.",
        ),
        click.option(
            "--use-ddq",
            is_flag=True,
            default=None,
            help=(
                "Use the accelerations in the logs as they are, and filter nothing. Default: "
                "computed from positions."
            ),
        ),
        click.option(
            "--currents-as-torque",
            is_flag=True,
            default=None,
            help=(
                "Take columns named as motor currents, or in A, without drive_gain as they are. "
                "Default: refused."
            ),
        ),
        click.option(
            "--drive-gain",
            callback=_per_joint,
            help=(
                "Torque per unit of the torque columns (N m/A for currents): 12.5, one for each "
                "joint that is logged with commas, or elbow=12.5 for some."
            ),
        ),
        click.option(
            "--known-torque",
            callback=_known_torque,
            help=(
                "Columns of torques that are known, subtracted before a fit: comp_*, or "
                "joint2=comp for some joints."
            ),
        ),
        click.option(
            "--rate", type=float, help="Samples per second; a time column is then not looked at."
        ),
        click.option(
            "--units",
            callback=_units,
            help=(
                "Of positions, speeds and torques: deg, or q=deg,dq=rpm,tau=mNm. Default: SI, or "
                "what the names say."
            ),
        ),
        click.option(
            "--mapping",
            type=click.Path(),
            help=(
                "TOML or study file that says which column is what, in which unit, on which side "
                "of the gears."
            ),
        ),
    ):
        command = option(command)
    return command


def time_option(command: F) -> F:
    """Add the option that says when samples were taken, `time` of :func:`minidyn.prepare`."""
    return option_of(
        "recording.prepare.preparation:Preparation",
        "--time",
        type=OneOf(lambda: constant("recording.prepare.times", "TIMES"), "how"),
        help=(
            "When samples were taken: as stamped (stamps), evenly (even), as positions show (auto)."
        ),
    )(command)


def log_options(command: F) -> F:
    """Add the options that say how logs are read and prepared; `Job.of_files` takes them all."""
    for option in (
        click.option(
            "--delay",
            type=float,
            help=(
                "Seconds that torques are late against positions; they are moved back. Negative: "
                "early."
            ),
        ),
        click.option(
            "--cutoff",
            type=click.FloatRange(min=0.0, min_open=True),
            help=(
                "Of the low-pass for positions and torques, Hz. Default: from the data, or that "
                "of the fit."
            ),
        ),
        click.option(
            "--lazy/--no-lazy",
            default=None,
            help="Leave logs on disk. Default: those above 100 MB.",
        ),
        click.option(
            "--resample",
            type=click.FloatRange(min=0.0, min_open=True),
            help=(
                "Interpolate to so many samples per second. Default: where samples are truly "
                "uneven."
            ),
        ),
        time_option,
    ):
        command = option(command)
    return read_options(command)
