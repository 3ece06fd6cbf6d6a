"""Functions of robots on a GPU.

Nanoseconds a sample, bytes a second, beside a plain copy and other libraries.

    python benchmarks/gpu.py [--bytes 8e9] [--json FILE] [--only functions peers gradients reduction
    rollouts identify]

Device-resident: times between two events on the stream, median of several runs after a warm-up.
Needs `minidyn[cuda]` and CuPy, which times and holds the arrays.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import cupy as cp
import numpy as np

import minidyn as md

ROBOTS = ("ur10e", "panda")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "inertia_matrix", "base_regressor")
PACKED = "inertia_matrix, packed"


def seconds(call, *arrays, runs: int = 9, **options) -> float:
    call(*arrays, **options)
    found = []
    for _ in range(runs):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        call(*arrays, **options)
        end.record()
        end.synchronize()
        found.append(cp.cuda.get_elapsed_time(begin, end) * 1e-3)
    return statistics.median(found)


def copy_bandwidth() -> float:
    a = cp.zeros(1 << 28)
    b = cp.empty_like(a)
    return 2 * a.nbytes / seconds(cp.copyto, b, a)


def jax_seconds(robot, what: str, base, arrays) -> float:
    import jax

    jax.config.update("jax_enable_x64", True)
    scope: dict = {}
    exec(md.compile(robot, what, base=base).source("jax"), scope)  # noqa: S102
    function = jax.jit(scope[what])
    given = [jax.dlpack.from_dlpack(a) for a in arrays]
    function(*given).block_until_ready()
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        function(*given).block_until_ready()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def gradients() -> None:
    """Print what the gradient with respect to all arguments costs, in times of the function."""
    from minidyn.graph.derivative import vjp
    from minidyn.graph.targets.cuda.kernel import CudaFunction

    print(
        "\n| robot | function | ns a sample | gradient, ns | ratio | operations, ratio |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    for robot_name in ROBOTS:
        for what in FUNCTIONS[:3]:
            function = md.compile(md.load(robot_name), what).function
            back = vjp(function, [argument.name for argument in function.arguments])
            times, operations = [], []
            for each in (function, back):
                sizes = [a.size for a in each.arguments]
                count = (
                    int(6e9 / 8 / (sum(sizes) + sum(r.size for r in each.results))) // 1024 * 1024
                )
                arrays = [cp.random.standard_normal((size, count)) for size in sizes]
                kernel = CudaFunction(each, layout="components")
                out = kernel(*arrays)
                times.append(seconds(kernel, *arrays, out=out) / count * 1e9)
                operations.append(each.counts["mul"] + each.counts["add"])
                del arrays, out
                cp.get_default_memory_pool().free_all_blocks()
            ratios = f"{times[1] / times[0]:.2f} | {operations[1] / operations[0]:.2f}"
            print(
                f"| {robot_name} | {what} | {times[0]:.4f} | {times[1]:.4f} | {ratios} |",
                flush=True,
            )


def reduction() -> None:
    """Print what regressor and triangle cost together, beside writing the regressor and one product
    by cuBLAS.
    """
    from minidyn.graph.targets.cuda.reduce import CudaReduction
    from minidyn.identification.rows.base_rows import base_functions

    print(
        "\n| arm | columns | compile s | products | all joints divided | refined | written, "
        "cuBLAS |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in ROBOTS:
        for label, terms in (("", None), (" with friction", ("viscous", "coulomb", "offset"))):
            robot = md.load(name) if terms is None else md.load(name).with_drives(True, terms)
            base = md.base_parameters(robot)
            functions = base_functions(robot, base)
            gpu = CudaReduction(functions.rows.function)
            rng, count = np.random.default_rng(0), 1 << 23
            host = list(rng.normal(size=(4, 1 << 16, robot.n)))
            triangles = [
                np.triu(rng.uniform(0.5, 1.5, (size, size))) + size * np.eye(size)
                for size in gpu.sizes
            ]
            begin = time.perf_counter()
            found = gpu.grams(host, triangles, range(len(triangles)))
            first = time.perf_counter() - begin
            for mine, theirs in zip(
                found, functions.rows.grams(host, triangles, range(len(triangles)))
            ):
                assert np.abs(mine - theirs).max() < 1e-12 * np.abs(theirs).max()
            arrays = [cp.asarray(np.resize(values, (count, robot.n))) for values in host]
            packed, every = cp.asarray(gpu.plan.packed(triangles)[2]), (1 << len(triangles)) - 1
            times = [
                seconds(gpu.totals, arrays, divided, refined, packed) / count * 1e9
                for divided, refined in ((0, 0), (every, 0), (every, every))
            ]
            kernel = md.compile(robot, "base_regressor", base=base, target="cuda")
            some = [array[: 1 << 21] for array in arrays]
            out = kernel(*some[:3])

            def written(some=some, out=out, kernel=kernel, base=base):
                kernel(*some[:3], out=out)
                W = out.reshape(-1, base.rank)
                return W.T @ W

            plain = seconds(written) / len(some[0]) * 1e9
            columns = " ".join(str(len(own) + 1) for own in functions.columns)
            figures = " | ".join(f"{value:.3f}" for value in (*times, plain))
            print(f"| {name}{label} | {columns} | {first:.2f} | {figures} |", flush=True)
            del arrays, some, out, written
            cp.get_default_memory_pool().free_all_blocks()


def rollouts() -> None:
    """Print how long closed loops of a 7-joint arm take.

    One second each at 1 kHz, beside the processor.
    """
    robot = md.load("panda")
    motion = md.trajectory.fourier(robot, seed=1, speed=1.0)
    laws = {
        "computed_torque": md.control.computed_torque(robot, bandwidth=10),
        "pd_gravity": md.control.pd_gravity(robot, gain=20.0, bandwidth=20.0),
        "slotine_li": md.control.slotine_li(robot, bandwidth=5, gain=0.5, adaptation=0.001),
    }
    print(
        "\n| law | runs | first call s | again s | ns a step | processor, one core, ns a step | "
        "agree to |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, law in laws.items():
        q0 = motion(0.0)[0] + 0.02 * np.random.default_rng(0).normal(size=(100_000, robot.n))
        begin = time.perf_counter()
        expected = md.simulate_batch(robot, law, motion, 1.0, q0=q0[:256])
        alone = (time.perf_counter() - begin) / 256e3 * 1e9
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            runs = md.simulate_batch(robot, law, motion, 1.0, q0=q0, device="cuda")
            times.append(time.perf_counter() - begin)
            error = max(float(np.abs(runs[k].q - expected[k].q).max()) for k in (0, 100, 255))
            del runs
        again = min(times[1:])
        print(
            f"| {name} | 100000 | {times[0]:.2f} | {again:.3f} | {again / 1e8 * 1e9:.2f} | "
            f"{alone:.0f} | {error:.0e} |",
            flush=True,
        )


def identification() -> None:
    """Print how long a prepared recording of a 7-joint arm takes to be identified, in memory and
    from Parquet.
    """
    import tempfile
    from pathlib import Path

    from long_log import TERMS, robot_of_log
    from minidyn.identification.rows.triangles import assemble

    robot, count = robot_of_log(), 4_000_000
    t = np.arange(count) / 1000
    q, dq, ddq = md.trajectory.fourier(robot, seed=3)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.2 * np.random.default_rng(0).standard_normal(
        q.shape
    )
    log, base = md.Recording(t, q, tau, dq, ddq, robot.joint_names), md.base_parameters(robot)

    def least(call, *arguments, **options) -> float:
        found = []
        for _ in range(3):
            begin = time.perf_counter()
            call(*arguments, **options)
            found.append(time.perf_counter() - begin)
        return min(found)

    print(
        f"\n| {count} samples, 7 joints, {base.rank} parameters, s | one thread | eight threads | "
        "GPU |"
    )
    print("|---|---:|---:|---:|")
    ways = ({}, {"threads": 8}, {"device": "cuda"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        log.save(path)
        lazy = md.read_recording(path, robot, lazy=True, use_ddq=True)
        for label, data in (
            ("in memory", log),
            (f"Parquet, {path.stat().st_size / 1e6:.0f} MB", lazy),
        ):
            reduced = " | ".join(f"{least(assemble, robot, base, data, **way):.2f}" for way in ways)
            print(f"| reduced to triangles, {label} | {reduced} |", flush=True)
            whole = " | ".join(
                f"{least(md.identify, robot, data, friction=TERMS, **way):.2f}" for way in ways
            )
            print(f"| `md.identify`, {label} | {whole} |", flush=True)


def peers() -> None:
    """Print what MuJoCo MJX and frax take for the same robots, where they are installed.

    Results must agree.
    """
    import importlib.util
    import tempfile
    from pathlib import Path

    count = 1 << 20
    print(
        "\n| robot | function | library | float | ns a sample | times minidyn | agrees to | (N = "
        f"{count})"
    )
    print("|---|---|---|---|---:|---:|---:|")
    makers = {"mujoco.mjx": mjx_functions, "frax": frax_functions}
    with tempfile.TemporaryDirectory() as folder:
        for robot_name in ROBOTS:
            robot = md.load(robot_name)
            rng = np.random.default_rng(0)
            host = list(rng.uniform(-1, 1, (3, count, robot.n)))
            for what in FUNCTIONS[:3]:
                native = md.compile(robot, what, target="cuda")
                sample = host[: len(native.function.arguments)]
                expected = native(*(cp.asarray(a[:1000]) for a in sample)).get()
                for dtype in ("float64", "float32"):
                    kernel = md.compile(robot, what, target="cuda", dtype=dtype)
                    arrays = [cp.asarray(a, dtype=dtype) for a in sample]
                    out = kernel(*arrays)
                    ours = seconds(kernel, *arrays, out=out) / count * 1e9
                    print(
                        f"| {robot_name} | {what} | minidyn | {dtype} | {ours:.3f} | 1 | |",
                        flush=True,
                    )
                    for library, make in makers.items():
                        if importlib.util.find_spec(library) is None:
                            continue
                        took, found = peer_seconds(make(robot, what, Path(folder), dtype), arrays)
                        error = float(np.abs(found - expected).max() / np.abs(expected).max())
                        figures = (
                            f"{took / count * 1e9:.3f} | {took / count * 1e9 / ours:.0f} | "
                            f"{error:.0e}"
                        )
                        print(
                            f"| {robot_name} | {what} | {library} | {dtype} | {figures} |",
                            flush=True,
                        )


def peer_seconds(function, arrays) -> tuple[float, np.ndarray]:
    """Return the seconds of a JAX function for one sample, mapped over all and compiled, and its
    first results.
    """
    import jax

    mapped = jax.jit(jax.vmap(function))
    given = [jax.dlpack.from_dlpack(a) for a in arrays]
    found = mapped(*given).block_until_ready()
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        mapped(*given).block_until_ready()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), np.asarray(found[:1000], dtype=float)


def mjx_functions(robot, what: str, folder, dtype: str):
    """Return MJX's smooth dynamics of one sample.

    No contacts, limits or actuators are looked at.
    """
    import jax
    import mujoco
    from mujoco import mjx
    from mujoco.mjx._src.smooth import solve_m

    jax.config.update("jax_enable_x64", dtype == "float64")
    md.save(robot, folder / "robot.xml")
    model = mjx.put_model(mujoco.MjModel.from_xml_path(str(folder / "robot.xml")))
    empty = mjx.make_data(model)

    def placed(q, dq):
        data = mjx.com_pos(model, mjx.kinematics(model, empty.replace(qpos=q, qvel=dq)))
        return data if dq is empty.qvel else mjx.com_vel(model, data)

    def inverse_dynamics(q, dq, ddq):
        return mjx.rne(model, placed(q, dq).replace(qacc=ddq), flg_acc=True).qfrc_bias

    def inertia_matrix(q):
        return mjx.full_m(model, mjx.crb(model, placed(q, empty.qvel)))

    def forward_dynamics(q, dq, tau):
        data = mjx.rne(model, mjx.factor_m(model, mjx.crb(model, placed(q, dq))))
        return solve_m(model, data, tau - data.qfrc_bias)

    return locals()[what]


def frax_functions(robot, what: str, folder, dtype: str):
    """Return frax's functions of one sample, by its own algorithms for chains."""
    from xml.etree import ElementTree

    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", dtype == "float64")
    from frax.core.manipulator import Manipulator

    md.save(robot, folder / "robot.urdf")
    tree = ElementTree.parse(folder / "robot.urdf")  # noqa: S314 (just written)
    for link in tree.iter("link"):  # it wants one of the base, too, which nothing depends on
        if link.find("inertial") is None:
            own = ElementTree.SubElement(link, "inertial")
            ElementTree.SubElement(own, "mass", value="1")
            ElementTree.SubElement(
                own, "inertia", ixx="1", ixy="0", ixz="0", iyy="1", iyz="0", izz="1"
            )
    tree.write(folder / "robot.urdf")
    arm = Manipulator(str(folder / "robot.urdf"))
    gravity = jnp.array([*(-np.asarray(robot.gravity)), 0, 0, 0])  # as it gives it to `rnea` itself
    return {
        "inverse_dynamics": lambda q, dq, ddq: arm.rnea(q, dq, ddq, gravity, None),
        "inertia_matrix": arm.mass_matrix,
        "forward_dynamics": lambda q, dq, tau: arm.forward_dynamics(q, dq, tau, None),
    }[what]


SECTIONS = {
    "peers": peers,
    "gradients": gradients,
    "reduction": reduction,
    "rollouts": rollouts,
    "identify": identification,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=float, default=8e9, help="size of all arrays of a call")
    parser.add_argument("--json")
    parser.add_argument("--jax", action="store_true", help="also time the JAX target")
    parser.add_argument(
        "--only", nargs="+", choices=("functions", *SECTIONS), default=("functions", *SECTIONS)
    )
    options = parser.parse_args()
    copy = copy_bandwidth()
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}: a copy moves {copy / 1e12:.2f} TB/s (read and written)\n")
    if "functions" in options.only:
        rows = functions(copy, options.bytes, options.jax)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"gpu": name, "copy": copy, "rows": rows}, file, indent=1)
    for section, call in SECTIONS.items():
        if section in options.only:
            call()


def functions(copy: float, size_of_all: float, with_jax: bool) -> list[dict[str, object]]:
    """Print nanoseconds a sample of each function in both layouts; return them."""
    print(
        "| robot | function | layout | compile s | again s | ns a sample | billion a second | "
        "share of the copy |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|")
    rows = []
    for robot_name in ROBOTS:
        robot = md.load(robot_name)
        for label in (*FUNCTIONS[:3], PACKED, FUNCTIONS[3]):
            what = label.partition(",")[0]
            base = md.base_parameters(robot) if what == "base_regressor" else None
            options = {"base": base, "packed": label == PACKED}
            native = md.compile(robot, what, **options)
            rng = np.random.default_rng(0)
            size = 8 * sum(a.size for a in (*native.function.arguments, *native.function.results))
            count = (
                int(size_of_all / size) // 1024 * 1024
            )  # components then begin where whole sectors begin
            host = [rng.normal(size=(1000, a.size)) for a in native.function.arguments]
            expected = native(*host)
            for layout in ("components", "rows"):
                kernel = md.compile(robot, what, target="cuda", layout=layout, **options)
                first = kernel.cuda.compile()
                again = md.compile(
                    robot, what, target="cuda", layout=layout, **options
                ).cuda.compile()
                arrays = [cp.asarray(np.resize(a, (count, a.shape[1]))) for a in host]
                if layout == "components":
                    arrays = [cp.ascontiguousarray(a.T) for a in arrays]
                out = kernel(*arrays)
                check = cp.moveaxis(out, -1, 0)[:1000] if layout == "components" else out[:1000]
                error = float(np.abs(check.get() - expected).max() / np.abs(expected).max())
                assert error < 1e-12, error
                took = seconds(kernel, *arrays, out=out) / count
                row = {
                    "robot": robot_name,
                    "what": label,
                    "layout": layout,
                    "compile": first,
                    "again": again,
                }
                row |= {"ns": took * 1e9, "share": size / took / copy}
                rows.append(row)
                print(
                    f"| {robot_name} | {label} | {layout} | {first:.2f} | {again:.3f} | "
                    f"{took * 1e9:.4f} | {1e-9 / took:.2f} | {100 * size / took / copy:.0f} % |",
                    flush=True,
                )
                if with_jax and layout == "rows" and label != PACKED:
                    other = jax_seconds(robot, what, base, arrays) / count
                    print(
                        f"| {robot_name} | {what} | JAX | | | {other * 1e9:.4f} | "
                        f"{1e-9 / other:.2f} | |",
                        flush=True,
                    )
                del arrays, out, check
                cp.get_default_memory_pool().free_all_blocks()
    return rows


if __name__ == "__main__":
    main()
