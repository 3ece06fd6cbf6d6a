// Stage 1: the robot. Chosen or dropped, posed, locked, turned against gravity; colours say what its motion can show.
import { act, ask, drop, h, notices, session, short, table, upload } from "./dom.js";
import { Scene } from "./scene.js";

const MOUNTS = [["floor", [0, 0, -9.81]], ["ceiling", [0, 0, 9.81]], ["wall, x", [9.81, 0, 0]], ["wall, y", [0, 9.81, 0]]];
const WORDS = { identifiable: "some of its parameters are identified by themselves", "in combination": "its parameters act in combinations only", "no effect": "no parameter of it has any effect" };

export const robot = (app) => {
  const choice = h("div", { className: "card" }), joints = h("div", { className: "card joints" }), gravity = h("div", { className: "card" }), about = h("div", { className: "card" });
  const scene = new Scene("The robot in 3D. Arrow keys turn it, plus and minus zoom.", (body) => explain(body));
  const legend = h("p", { className: "legend" }, [["identifiable", "identified"], ["combined", "in combination"], ["none", "no effect"]].map(([key, words]) => h("span", {}, h("i", { className: `key ${key}` }), words)), h("span", {}, "Click a link to read what becomes of its parameters."));
  const toggles = h("div", { className: "row" }, [["axes", "Joint axes"], ["frames", "Link frames"], ["names", "Numbers"]].map(([key, words]) => h("button", { type: "button", "aria-pressed": String(scene.shows[key]), onclick: (event) => { scene.shows[key] = !scene.shows[key]; event.target.setAttribute("aria-pressed", String(scene.shows[key])); scene.draw(); } }, words)));
  const left = h("div", {}, h("div", { className: "card" }, scene.element, legend, toggles), about);
  const element = h("div", {}, h("h1", {}, "Robot"), h("p", { className: "lead" }, "Choose the robot whose parameters are to be found, lock joints that do not move, and say where it is mounted."), choice, h("div", { className: "split" }, left, h("div", {}, joints, gravity)));
  let loaded = "", data = null, base = null, q = [], asking = false, again = false;

  const pose = async () => {
    if (asking) { again = true; return; }
    asking = true;
    const { data: frames } = await ask("pose", { q });
    scene.move(new Float32Array(frames));
    asking = false;
    if (again) { again = false; pose(); }
  };

  const explain = (body) => app.fill(about, [loaded, body, Boolean(base)], () => {
    if (!base) return h("p", { className: "quiet" }, "Base parameters are computed …");
    const name = body < 0 ? "" : scene.data.bodies[body + 1], entry = base.links[name];
    const head = h("h2", {}, `${base.rank} base parameters`);
    if (!entry) return [head, h("p", { className: "quiet" }, "That many numbers, and no more, act on the joint torques. Click a link, or choose one here."), h("div", { className: "row" }, Object.keys(base.links).map((link) => h("button", { type: "button", onclick: () => scene.choose(scene.data.bodies.indexOf(link) - 1) }, link)))];
    const members = Object.values(entry).flat().map((word) => word.split(" ")[0]);
    const related = Object.values(base.relations).filter((text) => members.some((one) => new RegExp(`(^|[^A-Za-z0-9])${one}([^0-9]|$)`).test(text)));
    return [head, h("p", {}, h("strong", {}, name), `: ${WORDS[base.level[name]]}.`),
      table(["", "parameters"], Object.entries(entry).map(([word, list]) => [word, list.join(", ")])),
      related.length ? h("details", {}, h("summary", {}, `${related.length} base parameters that they are in`), h("ul", { className: "plain" }, related.map((text) => h("li", {}, h("code", {}, text))))) : null,
      h("button", { type: "button", onclick: () => scene.choose(-1) }, "All links")];
  });

  const load = async () => {
    const options = JSON.stringify(app.state.tables.robot || {});
    if (loaded === options || !app.state.tables.robot) return;
    loaded = options;
    base = null;
    const answer = await app.try(() => ask("robot", { log: "" }));
    if (!answer || loaded !== options) return;
    data = answer.value;
    q = data.joint_names.map((name) => { const j = data.joints.find((one) => one.name === name); return Math.min(Math.max(0, j.lower ?? 0), j.upper ?? 0); });
    const { data: frames } = await ask("pose", { q });
    scene.levels = {};
    scene.show(data.scene, new Float32Array(frames));
    panels();
    explain(-1);
    base = (await app.try(() => ask("base")))?.value;
    if (!base) return;
    scene.colours(base.level);
    explain(scene.chosen);
  };

  const lock = (name, at) => {
    const locks = { ...(app.state.tables.robot.lock || {}) };
    if (at === null) delete locks[name]; else locks[name] = at;
    app.try(() => act("robot_option", { name: "lock", value: locks }));
  };

  const panels = () => {
    app.fill(joints, data && [data.name, data.joints, data.notices.length], () => {
      if (!data) return null;
      const rows = data.joints.map((joint, k) => {
        const place = data.joint_names.indexOf(joint.name), degrees = joint.slides ? 1 : 180 / Math.PI;
        const low = joint.lower ?? (joint.slides ? -1 : -Math.PI), up = joint.upper ?? (joint.slides ? 1 : Math.PI);
        const shown = h("output", {}, place < 0 ? short(joint.locked * degrees) : short(q[place] * degrees));
        const slider = h("input", { type: "range", min: low, max: up, step: "any", value: place < 0 ? joint.locked : q[place], disabled: place < 0, "aria-label": `Position of ${joint.name}`, id: `pose-${k}`, oninput: (event) => { q[place] = Number(event.target.value); shown.textContent = short(q[place] * degrees); pose(); } });
        const tick = h("input", { type: "checkbox", checked: joint.locked !== null && joint.locked !== undefined, disabled: !session.writes, id: `lock-${k}`, "aria-label": `Lock ${joint.name}`, onchange: (event) => lock(joint.name, event.target.checked ? q[place] : null) });
        return [h("span", {}, h("span", { className: "quiet" }, `${k + 1} `), joint.name), h("span", { className: "nowrap" }, slider, shown, joint.slides ? " m" : "°"), tick, h("span", { className: "nowrap" }, low === -up ? `±${short(up * degrees, 4)}` : `${short(low * degrees, 4)} … ${short(up * degrees, 4)}`), h("span", { className: "nowrap" }, [[joint.velocity, joint.slides ? "m/s" : "rad/s"], [joint.effort, joint.unit]].filter(([value]) => value !== null).map(([value, unit]) => h("div", {}, `${short(value)} ${unit}`)))];
      });
      return [h("h2", {}, "Joints"), table(["joint", "position", "lock", "range", "limits"], rows, [4]),
        data.notices.length ? h("details", {}, h("summary", {}, `Remarks on the file (${data.notices.length})`), notices(data.notices)) : null];
    });
    app.fill(gravity, data && [data.gravity, app.state.tables.robot], () => {
      if (!data) return null;
      const set = (value) => app.try(() => act("robot_option", { name: "gravity", value }));
      const inputs = data.gravity.map((value, k) => h("input", { type: "number", step: "any", value, disabled: !session.writes, id: `gravity-${k}`, "aria-label": `Gravity along ${"xyz"[k]}, m/s²`, onchange: () => set(inputs.map((one) => Number(one.value))) }));
      const pull = Math.hypot(...data.gravity) || 9.81, degrees = 180 / Math.PI;
      const tilt = h("input", { type: "range", min: 0, max: 180, step: 1, value: degrees * Math.acos(-data.gravity[2] / pull), disabled: !session.writes, id: "gravity-tilt", "aria-label": "Angle between gravity and −z, degrees", onchange: () => turned() });
      const aside = h("input", { type: "range", min: -180, max: 180, step: 1, value: degrees * Math.atan2(data.gravity[1], data.gravity[0]), disabled: !session.writes, id: "gravity-aside", "aria-label": "Direction of gravity about z, degrees", onchange: () => turned() });
      const turned = () => { const [a, b] = [tilt.value / degrees, aside.value / degrees]; set([Math.sin(a) * Math.cos(b), Math.sin(a) * Math.sin(b), -Math.cos(a)].map((value) => Number((pull * value).toFixed(6)))); };
      return [h("h2", {}, "Mounting"), h("p", { className: "quiet" }, "Gravity in the frame of the robot's file, m/s². The arrow in the picture points down."), h("div", { className: "row" }, inputs),
        h("div", { className: "row" }, MOUNTS.map(([words, value]) => h("button", { type: "button", disabled: !session.writes, onclick: () => set(value) }, words)), h("button", { type: "button", disabled: !session.writes, onclick: () => set(null) }, "as in the file")), h("div", { className: "row" }, h("label", { className: "row" }, "tilt", tilt), h("label", { className: "row" }, "about z", aside))];
    });
  };

  const update = () => {
    const file = app.state.tables.robot?.file || "";
    app.fill(choice, [file, app.state.files], () => {
      const known = app.choices.robots, mine = Object.entries(app.state.files).filter(([name]) => name.startsWith("files/robot-"));
      const other = file && !known.some((one) => one.name === file) && !mine.some(([name]) => name === file) ? [[file, file.split("/").pop()]] : [];
      const menu = h("select", { id: "robot", disabled: !session.writes, "aria-label": "Robot", onchange: (event) => app.try(() => act("robot", { file: event.target.value })) },
        h("option", { value: "", disabled: true, selected: !file }, "Choose a robot"),
        [...mine, ...other].map(([name, words]) => h("option", { value: name, selected: name === file }, words)),
        known.map((one) => h("option", { value: one.name, selected: one.name === file }, `${one.name}: ${one.about}`)));
      menu.style.maxWidth = "28rem";
      return h("div", { className: "row" }, menu, drop("or drop a URDF, xacro, MJCF or TOML file here", false, (files) => app.try(async () => { for (const one of files) await act("robot", { file: await upload("robot", one) }); })),
        file ? null : h("button", { type: "button", className: "main", disabled: !session.writes, onclick: () => app.try(() => act("example", {})) }, "Try it: UR10 with a measured log"));
    });
    for (const one of [joints, gravity, about, left]) one.hidden = !file;
    load();
    panels();
  };
  const begin = { element, update: () => { if (app.choices) update(); else ask("choices").then(({ value }) => { app.choices = value; update(); }); } };
  return begin;
};
