"""For controllers of ros2_control.

A C++ class of the inverse dynamics around generated C, and its parameters as YAML. The class needs
C++17 and nothing else. Its numbers come from parameters.yaml, so that a robot that was identified
anew needs no new build; `configure` does what depends on them, once, and `torque` and `gravity`
allocate nothing. Joints may come in any order. The geometry and the kinds of drive terms are in the
code: a fingerprint in the YAML ties both.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from minidyn.codegen.files import CHECK_INCLUDES, Written, function_for, states_in_c
from minidyn.dynamics.drives import memory_columns
from minidyn.dynamics.sources import c_files, source_name
from minidyn.errors import UnknownParameters
from minidyn.files import write_atomically
from minidyn.graph.function import safe_identifier
from minidyn.model.drives import BREAKAWAY
from minidyn.model.robot import Robot
from minidyn.text import safe_comment

_PREPARE = re.compile(r"void \w+_prepare\(const double \w+\[\d+\], double \w+\[(\d+)\]\);")


def write(robot: Robot, path: Path) -> Written:
    """Write a folder: inverse_dynamics.hpp, the C files it includes, parameters.yaml."""
    if np.isnan(robot.parameters).any():
        raise UnknownParameters(
            f"robot {robot.name!r}: parameters are unknown; identify them first"
        )
    names, sizes = {}, {}
    texts: dict[str, str] = {}
    for what in ("inverse_dynamics", "gravity_torque"):
        function = function_for(robot, what, parameters="argument")
        names[what] = source_name(robot, function)
        made = c_files(robot, function)
        found = _PREPARE.search(made[f"{names[what]}.h"])
        sizes[what] = int(found[1]) if found else 0
        texts |= made
    if memory_columns(robot):
        prototype, body = states_in_c(robot)
        texts[f"{names['inverse_dynamics']}.h"] = _declared(
            texts[f"{names['inverse_dynamics']}.h"], prototype
        )
        code = texts[f"{names['inverse_dynamics']}.c"]
        included = code.replace("#include <math.h>\n", f"#include <math.h>\n{CHECK_INCLUDES}", 1)
        texts[f"{names['inverse_dynamics']}.c"] = f"{included}\n{body}\n"
    texts["inverse_dynamics.hpp"] = _header(robot, names, sizes)
    texts["parameters.yaml"] = _yaml(robot)
    path.mkdir()
    for name, text in texts.items():
        write_atomically(path / name, text.encode())
    return Written(tuple(path / name for name in texts), robot, robot)


def _declared(header: str, prototype: str) -> str:
    """Return a C header with one more prototype."""
    before, mark, after = header.rpartition("#ifdef __cplusplus\n}")
    return f"{before}{prototype}\n\n{mark}{after}"


def _header(robot: Robot, names: dict[str, str], sizes: dict[str, int]) -> str:
    size = len(memory_columns(robot))
    timed = any(
        column.symbol == BREAKAWAY for column in memory_columns(robot)
    )  # it counts how long drives rest, s
    remembering = "memory_.data(), " if size else ""
    calls, keeps, prepares = {}, [], []
    arguments = {
        "inverse_dynamics": f"q_.data(), dq_.data(), ddq_.data(), {remembering}",
        "gravity_torque": "q_.data(), ",
    }
    for what, name in names.items():
        kept = f"{what}_"
        if sizes[what]:
            keeps.append(f"  std::array<double, {sizes[what]}> {kept}{{}};")
            prepares.append(f"    {name}_prepare(parameters_.data(), {kept}.data());")
        given = f"{kept}.data()" if sizes[what] else "parameters_.data()"
        calls[what] = (
            f"{name}{'_prepared' if sizes[what] else ''}({arguments[what]}{given}, tau_.data());"
        )
    state = names["inverse_dynamics"].replace("inverse_dynamics", "drive_states")
    values = {
        "ROBOT": safe_comment(robot.name),
        "GUARD": f"MINIDYN_{safe_identifier(robot.name).upper()}_INVERSE_DYNAMICS_HPP",
        "INCLUDES": "\n".join(f'#include "{name}.h"' for name in names.values()),
        "SPACE": safe_identifier(robot.name),
        "JOINTS": str(robot.n),
        "SIZE": str(len(robot.parameters)),
        "NAMES": ", ".join(map(_cpp_string, robot.joint_names)),
        "FINGERPRINT": robot.structure_fingerprint,
        "PREPARES": "\n".join(prepares),
        "REMEMBER": _REMEMBER.replace("@STATES@", state).replace("@STEP@", "period, " * timed)
        * bool(size),
        "PERIOD": ", double period" * timed,
        "GIVEN": ", period" * timed,
        "FORGET": "    memory_.fill(0.0);\n" * bool(size),
        "INVERSE": calls["inverse_dynamics"],
        "GRAVITY": calls["gravity_torque"],
        "KEEPS": "\n".join(
            [*keeps, *[f"  std::array<double, {size}> memory_{{}};", _LAST] * bool(size)]
        ),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _CLASS)


def _cpp_string(name: str) -> str:
    """Return a C++ string literal of any text: what is not plain is written byte by byte."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in name.encode()
    )
    return f'"{"".join(plain)}"'


def _yaml_string(text: str) -> str:
    """Return a YAML string of any text."""
    plain = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(plain)}"'


def _yaml(robot: Robot) -> str:
    lines = [
        (
            "# Parameters of inverse_dynamics.hpp, written by minidyn: SI units, joint side, in "
            "the order of the comments."
        ),
        "/**:",
        "  ros__parameters:",
        "    inverse_dynamics:",
        f"      robot: {_yaml_string(robot.name)}",
        f"      fingerprint: {_yaml_string(robot.structure_fingerprint)}",
        f"      joints: [{', '.join(map(_yaml_string, robot.joint_names))}]",
        "      parameters:",
    ]
    numbers = (f"{float(value)!r}" for value in robot.parameters)
    # libyaml takes 1e-05 as a text: a number has a point
    pointed = (number if "." in number else number.replace("e", ".0e") for number in numbers)
    lines += [
        f"        - {number}  # {name}" for number, name in zip(pointed, robot.parameter_names)
    ]
    return "\n".join(lines) + "\n"


_REMEMBER = (
    "    if (begun_) @STATES@(last_.data(), q_.data(), @STEP@memory_.data());\n    last_ = q_;\n"
)
_LAST = "  std::array<double, kJoints> last_{};"
_CLASS = """\
// Inverse dynamics of robot @ROBOT@ for controllers, written by minidyn.
//
//   #include "inverse_dynamics.hpp"
//   minidyn::@SPACE@::InverseDynamics model;
//   // on_configure, with what parameters.yaml holds below inverse_dynamics:
//   if (!model.configure(joints, parameters, fingerprint)) RCLCPP_ERROR(logger, "%s", model.error());
//   // update, joints in the order that was given; nothing is allocated:
//   model.torque(q, dq, ddq, tau@GIVEN@);  // rad or m, N m or N; rotor inertia and friction included
//   model.gravity(q, tau);
//
// Compile the C files beside this one with it. One object serves one thread.
#ifndef @GUARD@
#define @GUARD@

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

@INCLUDES@

namespace minidyn {
namespace @SPACE@ {

class InverseDynamics {
 public:
  static constexpr std::size_t kJoints = @JOINTS@;
  static constexpr std::size_t kParameters = @SIZE@;
  static constexpr const char * kFingerprint = "@FINGERPRINT@";

  // Names of the joints in the model's own order.
  static const std::array<const char *, kJoints> & joint_names() {
    static const std::array<const char *, kJoints> names{{@NAMES@}};
    return names;
  }

  // Take the parameters of parameters.yaml and the order of the caller's joints; false, with error(), where they are
  // another robot's. Not for the control loop.
  bool configure(const std::vector<std::string> & joints, const std::vector<double> & parameters,
                 const std::string & fingerprint = kFingerprint) {
    ready_ = false;
    if (fingerprint != kFingerprint) return fail("the parameters are those of another robot (fingerprint)");
    if (parameters.size() != kParameters) return fail("another number of parameters than the model has");
    if (joints.size() != kJoints) return fail("another number of joints than the model has");
    std::array<bool, kJoints> seen{};
    for (std::size_t i = 0; i < kJoints; ++i) {
      std::size_t k = 0;
      while (k < kJoints && joints[i] != joint_names()[k]) ++k;
      if (k == kJoints || seen[k]) return fail("a joint that the model does not have, or has once");
      seen[k] = true;
      place_[i] = k;
    }
    std::memcpy(parameters_.data(), parameters.data(), sizeof(double) * kParameters);
@PREPARES@
    reset();
    error_ = "";
    return ready_ = true;
  }

  // Torques of a motion, joints in the caller's order. False, with tau left as it was, before configure and where
  // a value is not finite: do not use tau then.
  bool torque(const double * q, const double * dq, const double * ddq, double * tau@PERIOD@) noexcept {
    if (!ready_ || !finite(q) || !finite(dq) || !finite(ddq)) return false;
    for (std::size_t i = 0; i < kJoints; ++i) {
      q_[place_[i]] = q[i];
      dq_[place_[i]] = dq[i];
      ddq_[place_[i]] = ddq[i];
    }
@REMEMBER@    begun_ = true;
    @INVERSE@
    for (std::size_t i = 0; i < kJoints; ++i) tau[i] = tau_[place_[i]];
    return true;
  }

  // Torques that hold the robot still against gravity; false as above.
  bool gravity(const double * q, double * tau) noexcept {
    if (!ready_ || !finite(q)) return false;
    for (std::size_t i = 0; i < kJoints; ++i) q_[place_[i]] = q[i];
    @GRAVITY@
    for (std::size_t i = 0; i < kJoints; ++i) tau[i] = tau_[place_[i]];
    return true;
  }

  // Forget the motion before: what drives remember.
  void reset() noexcept {
    begun_ = false;
@FORGET@  }

  const char * error() const noexcept { return error_; }

 private:
  bool fail(const char * text) noexcept {
    error_ = text;
    return false;
  }

  // By the bits: also with -ffast-math.
  static bool finite(const double * values) noexcept {
    for (std::size_t i = 0; i < kJoints; ++i) {
      std::uint64_t bits;
      std::memcpy(&bits, values + i, sizeof(bits));
      if ((bits & 0x7ff0000000000000u) == 0x7ff0000000000000u) return false;
    }
    return true;
  }

  std::array<std::size_t, kJoints> place_{};
  std::array<double, kParameters> parameters_{};
  std::array<double, kJoints> q_{}, dq_{}, ddq_{}, tau_{};
@KEEPS@
  bool ready_ = false, begun_ = false;
  const char * error_ = "not configured";
};

}  // namespace @SPACE@
}  // namespace minidyn

#endif
"""  # noqa: E501
