"""Copies, and values from other processes, are what they were made from.

The same numbers, read-only where it was.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import minidyn as md

HOW = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    robot = md.load("two_link")
    law = md.control.pd_gravity(robot, gain=30.0, bandwidth=8.0)
    motion = md.excite(robot, 3.0, harmonics=3, time_limit=0.2)
    log = md.simulate(robot, law, motion.trajectory, 3.0, torque_noise=0.01)[::10]
    log = log.__class__(**{**vars(log), "telemetry": dict(log.telemetry), "info": {"cutoff": 3.0}})
    estimate = md.identify(robot, log)
    return {
        "recording": log,
        "estimate": estimate,
        "base": estimate.base,
        "validation": md.validate(estimate, log),
        "excitation": motion,
    }


def arrays(value: Any, path: str = "", depth: int = 4) -> dict[str, np.ndarray]:
    """All arrays inside a value, by where they are."""
    if isinstance(value, np.ndarray):
        return {path: value}
    if hasattr(value, "items"):
        inner = list(value.items())
    elif type(value).__module__.startswith("minidyn") and hasattr(value, "__dict__"):
        inner = list(vars(value).items())
    else:
        return {}
    return (
        {}
        if not depth
        else {
            k: v for name, one in inner for k, v in arrays(one, f"{path}.{name}", depth - 1).items()
        }
    )


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["recording", "estimate", "base", "validation", "excitation"])
def test_values_come_back_as_they_were(values: dict[str, Any], name: str, how: str) -> None:
    value = values[name]
    again = HOW[how](value)
    assert type(again) is type(value)
    old, new = arrays(value), arrays(again)
    assert old.keys() == new.keys()
    assert old
    for path, array in old.items():
        np.testing.assert_array_equal(new[path], array)
        if not path.startswith((".trajectory", ".recording.info")):
            assert new[path].flags.writeable <= array.flags.writeable, path
    for attribute in ("notices", "info", "record", "settings", "joint_names", "starts", "prepared"):
        if hasattr(value, attribute):
            assert getattr(again, attribute) == getattr(value, attribute)


LAWS = {
    "computed_torque": {"bandwidth": 8.0},
    "pd_gravity": {"gain": [30.0, 20.0], "bandwidth": 8.0},
    "slotine_li": {"bandwidth": 5.0, "gain": 3.0, "adaptation": 0.5, "composite": 0.1},
    "modified_slotine_li": {
        "bandwidth": 5.0,
        "adaptation": 0.5,
        "consistent": False,
        "unknown": ["M2"],
    },
    "craig": {"bandwidth": 5.0, "adaptation": 0.1, "unknown": ["M2"]},
}


@pytest.mark.parametrize("name", LAWS)
def test_controllers_come_back_as_they_were(name: str) -> None:
    robot = md.load("two_link").with_parameters(1.1 * md.load("two_link").parameters)
    given = {
        key: np.array(value) if isinstance(value, list) and key == "gain" else value
        for key, value in LAWS[name].items()
    }
    law = getattr(md.control, name)(robot, **given)
    if name == "pd_gravity":
        given["gain"][:] = 1e9  # the caller's array is the caller's
    rng = np.random.default_rng(0)
    seen = md.control.Measurement(0.0, *rng.normal(size=(3, robot.n)))
    reference = tuple(rng.normal(size=(3, robot.n)))
    expected = law(law.start, seen, reference)
    for how in HOW.values():
        again = how(law)
        assert again.robot == robot
        state, torque, _ = again(again.start, seen, reference)
        np.testing.assert_array_equal(torque, expected[1])
        np.testing.assert_array_equal(state, expected[0])


def test_hidden_entries_of_masked_arrays_are_missing_or_refused() -> None:
    robot = md.load("two_link")
    t, q = np.arange(5) / 100, np.ones((5, robot.n))
    hidden = np.ma.masked_array(q, mask=np.eye(5, robot.n))
    shown = np.ma.masked_array(q, mask=False)
    log = md.Recording(t, hidden, q, telemetry={"load": hidden})
    assert np.array_equal(np.isnan(log.q), hidden.mask)
    assert np.array_equal(np.isnan(log.telemetry["load"]), hidden.mask)
    assert md.Recording(t, np.ma.masked_array(q.astype(int), mask=hidden.mask), q).q.dtype == float
    with pytest.raises(md.MinidynError, match="masked"):
        md.Recording(np.ma.masked_array(t, mask=t == 0.0), q, q)
    for call in (
        lambda x: md.inverse_dynamics(robot, x, q, q),
        lambda x: md.compile(robot, "gravity_torque")(x),
        lambda x: robot.with_parameters(np.ma.masked_array(robot.parameters, mask=x.mask.any())),
        lambda x: md.inverse_dynamics(
            robot, q, q, q, parameters=np.ma.masked_array(robot.parameters, mask=x.mask.any())
        ),
    ):
        call(shown)
        with pytest.raises(md.MinidynError, match="masked"):
            call(hidden)
