"""Distances of links and obstacles.

Capsules hold their shapes, distances agree with MuJoCo, motions keep them.
"""

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.errors import MissingExtra
from minidyn.excitation import hulls
from minidyn.excitation.bounds import bounds_of, work_poses
from minidyn.excitation.clearance import (
    Capsule,
    Clearance,
    clearance_of,
    fit_capsule,
    read_obstacles,
)
from minidyn.formats.urdf.surfaces import box, cylinder, sphere
from shape_cases import shaped_arm


@pytest.fixture
def arm(tmp_path):
    return md.load(shaped_arm(tmp_path))


def segment_points(start, end, many=201):
    return start + np.linspace(0, 1, many)[:, None] * (end - start)


@pytest.mark.parametrize("seed", range(count(20, 300)))
def test_a_capsule_holds_its_shape_and_is_slim(seed) -> None:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    shape = [box(rng.uniform(0.05, 0.5, 3)), cylinder(0.05, 0.4), sphere(np.full(3, 0.2))][seed % 3]
    points = shape.points @ turn.T + rng.normal(size=3)
    start, end, radius = fit_capsule(points)
    along = end - start
    s = np.clip((points - start) @ along / max(along @ along, 1e-12), 0, 1)
    away = np.linalg.norm(points - start - s[:, None] * along, axis=1)
    assert away.max() <= radius + 1e-9
    half = np.ptp(points, axis=0).max() / 2
    assert radius <= np.sqrt(3) * half + 1e-9
    if seed % 3 == 1:
        assert radius < 0.065  # a long cylinder is not held by a ball


@pytest.mark.parametrize("seed", range(count(5, 60)))
def test_distances_agree_with_mujoco(arm, seed) -> None:
    import mujoco

    rng = np.random.default_rng(seed)
    ends = rng.normal(size=(4, 2, 3))
    ends[3, 1] = ends[3, 0]  # a sphere
    radii = rng.uniform(0.02, 0.3, 4)
    capsules = tuple(
        Capsule(f"c{k}", -1, ends[k, 0], ends[k, 1], float(radii[k])) for k in range(4)
    )
    pairs = tuple((a, b) for a in range(4) for b in range(a + 1, 4))
    found = Clearance(arm, capsules, pairs, (), 0.0).distances(np.zeros((1, arm.n)))[0]
    geoms = "".join(
        f'<body><geom type="sphere" size="{r}" pos="{" ".join(map(repr, e[0].tolist()))}"/></body>'
        if np.allclose(e[0], e[1])
        else (
            f'<body><geom type="capsule" size="{r}" '
            f'fromto="{" ".join(map(repr, e.ravel().tolist()))}"/></body>'
        )
        for e, r in zip(ends, radii.tolist())
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{geoms}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for distance, (a, b) in zip(found, pairs):
        peer = mujoco.mj_geomDistance(model, data, a, b, 100.0, None)
        if distance > 1e-3:
            assert distance == pytest.approx(peer, abs=1e-6)
        points = [segment_points(*ends[k]) for k in (a, b)]
        nearest = (
            np.linalg.norm(points[0][:, None] - points[1][None], axis=2).min() - radii[a] - radii[b]
        )
        assert distance <= nearest + 1e-12
        assert distance >= nearest - 0.02


def test_gradients_of_distances_are_exact(arm) -> None:
    rng = np.random.default_rng(3)
    obstacles = [
        {"kind": "sphere", "centre": [0.5, 0.4, 0.5], "radius": 0.1},
        {"kind": "plane", "point": [0, 0, 0.1], "normal": [0, 0.1, 1]},
    ]
    found, notices = clearance_of(
        arm, 0.02, obstacles, work_poses(bounds_of(arm, None, 1.0), arm.n)
    )
    assert found is not None
    assert not [n for n in notices if n.code == "excite.links_not_checked"]
    q = rng.uniform(-2.5, 2.5, (50, arm.n))
    share, back = found.shares(q, 0.01)
    weights = rng.normal(size=share.shape)
    slope, h = back(weights), 1e-7
    for joint in range(arm.n):
        step = np.zeros(arm.n)
        step[joint] = h
        numeric = (
            (found.shares(q + step, 0.01)[0] - found.shares(q - step, 0.01)[0]) * weights
        ).sum(axis=1) / (2 * h)
        wrong = np.abs(slope[:, joint] - numeric) > 1e-5 * max(1.0, np.abs(numeric).max())
        assert wrong.mean() < 0.05  # where two points are equally near there is no gradient
    # no distance changes faster than `reach` says
    dq = rng.normal(size=q.shape)
    change = np.abs(found.distances(q + 1e-6 * dq) - found.distances(q)) / 1e-6
    assert np.all(change <= np.abs(dq) @ found.reach.T + 1e-6)


def no_coal(module):
    raise MissingExtra(module)


def test_neighbours_and_pairs_that_are_always_near_are_left_out(arm, monkeypatch) -> None:
    found, notices = clearance_of(arm, 0.02, None, work_poses(bounds_of(arm, None, 1.0), arm.n))
    assert found is not None
    assert "l0 - l1" not in found.names
    assert "l0 - l3" in found.names
    with monkeypatch.context() as patch:  # without Coal capsules are all that is known
        patch.setattr(hulls, "optional", no_coal)
        thick, notices = clearance_of(arm, 2.0, None, work_poses(bounds_of(arm, None, 1.0), arm.n))
    (notice,) = [n for n in notices if n.code == "excite.always_near"]
    assert thick is None
    assert set(notice.data["pairs"]) == set(found.names)
    assert notice.level == "error"
    assert all(name in str(notice) for name in found.names)
    upright = {
        "lower": {"j1": -1.6, "j2": -0.1, "j3": -0.1},
        "upper": {"j1": -1.4, "j2": 0.1, "j3": 0.1},
    }
    # no pair is ever near: a search has no distances to look at
    assert found.near(work_poses(bounds_of(arm, upright, 1.0), arm.n)) is None
    made = md.excite(arm, 3.0, limits=upright, harmonics=3, friction=(), time_limit=0.5)
    assert made.feasible
    assert min(made.margins["distance"].values()) > 0.1


def test_a_designed_motion_keeps_its_distances_at_1_khz(arm) -> None:
    obstacles = [
        {"kind": "plane", "point": [0, 0, 0.05], "normal": [0, 0, 1]},
        {
            "kind": "capsule",
            "from": [0.6, 0.6, 0],
            "to": [0.6, 0.6, 1],
            "radius": 0.1,
            "name": "post",
        },
        {"kind": "inside", "lower": [-2, -2, -2], "upper": [2, 2, 1.2]},
    ]
    made = md.excite(
        arm, 5.0, obstacles=obstacles, clearance=0.03, noise=0.5, harmonics=3, time_limit=15
    )
    assert made.feasible, made.notices
    rim = cylinder(0.04, 0.3).points @ np.array([[0, 0, -1.0], [0, 1, 0], [1, 0, 0]]) + [0.15, 0, 0]

    def ends(motion: md.Excitation) -> dict[str, np.ndarray]:
        """The cylinders of the file as many points (5000, points, 3) of each link.

        Another way than capsules.
        """
        q, found = motion.trajectory(np.arange(0, 5, 1e-3))[0], {}
        for link in ("l0", "l1", "l2", "l3"):
            T = md.forward_kinematics(arm, q, link)
            found[link] = np.einsum("nij,kj->nki", T[:, :3, :3], rim) + T[:, None, :3, 3]
        return found

    def room(points: np.ndarray) -> list[float]:
        """What is left to the plane, to the upper end of the box, and to the post."""
        away = np.linalg.norm(points[..., :2] - 0.6, axis=-1)
        post = np.where((points[..., 2] > 0) & (points[..., 2] < 1), away, 9.0).min() - 0.1
        return [points[..., 2].min() - 0.05, 1.2 - points[..., 2].max(), post]

    places = ends(made)
    assert min(min(room(places[link])) for link in ("l1", "l2", "l3")) >= 0.03 - 1e-6
    assert np.linalg.norm(places["l3"][:, :, None] - places["l1"][:, None], axis=-1).min() >= 0.03
    assert min(made.margins["distance"].values()) >= 0.03
    assert not [n for n in made.notices if n.code == "excite.no_collisions"]
    free = ends(md.excite(arm, 5.0, clearance=0.0, noise=0.5, harmonics=3, time_limit=15))
    assert (
        min(min(room(free[link])) for link in ("l1", "l2", "l3")) < 0
    )  # obstacles are in the way of what is best


def test_obstacles_are_checked_and_read_from_a_file(arm, tmp_path) -> None:
    file = tmp_path / "cell.toml"
    file.write_text('[[obstacle]]\nkind = "plane"\npoint = [0, 0, 0]\nnormal = [0, 0, 1]\n')
    assert read_obstacles(file) == [{"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]}]
    for wrong, word in (
        ([{"kind": "cone"}], "cone"),
        ([{"kind": "plane", "point": [0, 0, 0]}], "normal"),
        ([{"kind": "sphere", "centre": [0, 0], "radius": 1}], "three numbers"),
        ({"kind": "plane"}, "list"),
        ([{"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 0]}], "direction"),
    ):
        with pytest.raises(md.MinidynError, match=word):
            md.excite(arm, 3.0, obstacles=wrong)
    with pytest.raises(md.MinidynError, match="shape"):
        md.excite(
            "two_link", 3.0, obstacles=[{"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]}]
        )
    with pytest.raises(md.MinidynError, match="clearance"):
        md.excite(arm, 3.0, clearance=-1)
    made = md.excite(arm, 3.0, start=[0, 2.5, 0, 0], obstacles=read_obstacles(file), time_limit=1)
    (notice,) = [n for n in made.notices if n.code == "excite.infeasible"]
    assert notice.data["limit"] == "distance"


def test_points_inside_of_a_hull_do_not_count(arm) -> None:
    rng = np.random.default_rng(0)
    corners = box(np.ones(3)).points
    inside = rng.uniform(-0.49, 0.49, (5000, 3))
    assert len(hulls.hull_corners(np.concatenate([inside, corners]))) == 8
    flat = rng.uniform(size=(20, 3)) * [1, 1, 0]  # has no hull: all points stay
    np.testing.assert_array_equal(hulls.hull_corners(flat), flat)
