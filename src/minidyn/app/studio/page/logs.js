// Stage 2: the logs. Dropped, columns mapped, looked at with the robot in step, checked.
import { act, ask, drop, h, jointColour, notices, post, session, short, upload, verdict } from "./dom.js";
import { Chart } from "./chart.js";
import { Scene } from "./scene.js";

const SIGNALS = [["q", "position", "position, rad or m"], ["dq", "speed", "speed, rad/s or m/s"], ["tau", "torque", "torque, N m or N"]];
const SPEEDS = [0.25, 1, 4, 16, 64];

export const logs = (app) => {
  const list = h("div", { className: "card" }), mapping = h("div", { className: "card" }), look = h("div", {}), found = h("div", { className: "card" });
  const element = h("div", {}, h("h1", {}, "Logs"), h("p", { className: "lead" }, "Add logs of the robot in motion, see that each column is what it should be, and check them. One log tests the model; of a single log the last part does."), list, mapping, look, found);
  let columns = null, asked = "", shown = "", chart = null, scene = null, frames = null, timer = 0, wanted = null;

  const files = () => {
    const tables = app.state.tables.log || [];
    const used = (name) => [...new Set(tables.filter((one) => one.name === name).flatMap((one) => one.files))];
    return { fit: used("fit"), test: used("test").filter((file) => !used("fit").includes(file)), part: tables.find((one) => one.part)?.part };
  };
  const nameOf = (file) => app.state.files[file] || file.split("/").pop();
  const set = (fit, test) => app.try(() => act("logs", { fit, test }));
  const add = (some) => app.try(async () => {
    const { fit, test } = files();
    for (const one of some) fit.push(await upload("log", one));
    await act("logs", { fit, test });
  });

  const listed = () => app.fill(list, [files(), app.state.files], () => {
    const { fit, test, part } = files(), all = [...fit.map((file) => [file, "fit"]), ...test.map((file) => [file, "test"])];
    const rows = all.map(([file, role], k) => h("li", { className: "row" },
      h("strong", {}, nameOf(file)),
      h("select", { id: `role-${k}`, disabled: !session.writes, "aria-label": `What ${nameOf(file)} is for`, onchange: (event) => set(...[["fit"], ["test"]].map(([name]) => all.filter(([one, old]) => (one === file ? event.target.value : old) === name).map(([one]) => one))) },
        [["fit", "fitted"], ["test", "tests the model"]].map(([value, words]) => h("option", { value, selected: value === role }, words))),
      part && role === "fit" ? h("span", { className: "quiet" }, `${Math.round(100 * part[1])} % fitted, the rest tests the model`) : null,
      h("button", { type: "button", disabled: !session.writes, onclick: () => set(fit.filter((one) => one !== file), test.filter((one) => one !== file)) }, "Remove")));
    return [h("ul", { className: "plain" }, rows), drop("or drop logs here: CSV, Parquet, MAT, HDF5, bags", true, add)];
  });

  // ---------------------------------------------------------------- columns
  const understood = async () => {
    const file = files().fit[0], key = JSON.stringify([file, app.state.tables.mapping, app.state.tables.robot]);
    mapping.hidden = !file;
    if (!file || asked === key) return;
    asked = key;
    const answer = await app.try(() => ask("columns", { file }));
    if (asked !== key) return;
    columns = answer?.value;
    menus();
  };

  const menus = () => app.fill(mapping, [columns, app.state.tables.mapping], () => {
    if (!columns) return h("p", { className: "quiet" }, "This log has no columns to choose from.");
    const given = app.state.tables.mapping || {};
    const option = (value, words, now) => h("option", { value, selected: value === now }, words);
    const menu = (id, words, now) => h("select", { id, disabled: !session.writes, "aria-label": words }, option("", "none", now), columns.names.map((name) => option(name, name, now)));
    const time = menu("map-time", "Time column", columns.time[0] || "");
    const cells = columns.joints.map((joint, k) => SIGNALS.map(([signal, word]) => menu(`map-${signal}-${k}`, `${word} of ${joint}`, columns.signals[signal]?.[joint] || "")));
    const signs = columns.joints.map((joint, k) => h("input", { type: "checkbox", id: `sign-${k}`, disabled: !session.writes, "aria-label": `Reverse the sign of ${joint}`, checked: Array.isArray(given.sign) && given.sign[k] < 0 }));
    const units = SIGNALS.map(([signal, word]) => h("select", { id: `unit-${signal}`, disabled: !session.writes, "aria-label": `Unit of ${word}` }, option("", "as named, else SI", given.units?.[signal] || ""), app.choices.units.map((one) => option(one, one, given.units?.[signal] || ""))));
    const rate = h("input", { type: "number", id: "map-rate", min: 0, step: "any", value: given.rate ?? "", disabled: !session.writes, "aria-label": "Samples per second, where there is no time column" });
    const apply = () => {
      const values = { time: time.value || null, rate: rate.value ? Number(rate.value) : null, joints: columns.joints };
      SIGNALS.forEach(([signal], s) => { const picked = cells.map((row) => row[s].value); values[signal] = picked.every(Boolean) ? picked : picked.some(Boolean) || signal === "q" ? picked.filter(Boolean) : signal === "tau" || signal === "dq" ? false : null; });
      values.sign = signs.some((one) => one.checked) ? signs.map((one) => (one.checked ? -1 : 1)) : null;
      const chosen = Object.fromEntries(SIGNALS.map(([signal], s) => [signal, units[s].value]).filter(([, value]) => value));
      values.units = Object.keys(chosen).length ? chosen : null;
      app.try(() => act("mapping", values));
    };
    const forget = () => app.try(() => act("mapping", Object.fromEntries(Object.keys(given).map((name) => [name, null]))));
    const head = h("tr", {}, h("th", { scope: "col" }, "joint"), SIGNALS.map(([, word]) => h("th", { scope: "col" }, word)), h("th", { scope: "col" }, "reversed"));
    const body = columns.joints.map((joint, k) => h("tr", {}, h("th", { scope: "row" }, joint), cells[k].map((one) => h("td", {}, one)), h("td", {}, signs[k])));
    const grid = h("div", { className: "wide" }, h("table", { className: "map" }, h("thead", {}, head), h("tbody", {}, body, h("tr", {}, h("th", { scope: "row" }, "unit"), units.map((one) => h("td", {}, one)), h("td", {})))));
    const content = [h("div", { className: "row" }, "Time ", time, " or ", rate, " samples per second"), grid, h("div", { className: "row" }, h("button", { type: "button", className: columns.problem ? "main" : "", id: "map-apply", disabled: !session.writes, onclick: apply }, "Read the columns so"), Object.keys(given).length ? h("button", { type: "button", disabled: !session.writes, onclick: forget }, "Forget this; guess again") : null)];
    if (columns.problem) return [h("h2", {}, "Columns"), h("p", { className: "problem" }, columns.problem), content];
    return h("details", { open: Object.keys(given).length > 0 }, h("summary", {}, `Columns: ${Object.keys(given).length ? "as chosen" : "guessed from their names"}`), content);
  });

  // ---------------------------------------------------------------- signals and the robot in step
  const viewed = () => {
    const views = Object.entries(app.state.views).filter(([, view]) => view.columns), bad = Object.values(app.state.views).find((view) => view.error);
    if (!views.some(([name]) => name === wanted)) wanted = views[0]?.[0];
    const view = app.state.views[wanted], key = JSON.stringify([wanted, view?.key, app.state.check?.key]);
    if (!view) {
      shown = "";
      app.fill(look, [bad?.error, app.work?.task], () => (bad ? h("p", { className: "card problem" }, bad.error) : app.state.unread.length ? h("p", { className: "quiet" }, "Logs are read …") : null));
      return;
    }
    if (shown === key) return;
    shown = key;
    delete look.dataset.shown;
    draw(view, views.map(([name]) => name));
  };

  const draw = async (view, names) => {
    const time = chart?.log === wanted ? chart.time : 0;
    view.marks = [...view.starts.map((t) => [t, "gap or new run", "warning"]), ...(app.state.check?.marks || []).filter((one) => one.log === wanted).map((one) => [one.t, one.text, one.level])];
    const panels = SIGNALS.map(([signal, , label]) => ({ label, columns: view.columns.flatMap(([one], k) => (one === signal ? [k] : [])) })).filter((one) => one.columns.length);
    const readout = h("span", { className: "readout" }), speed = h("select", { "aria-label": "Speed of play" }, SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one} ×`)));
    scene = new Scene("The robot at the time of the playhead");
    scene.element.classList.add("small");
    scene.shows.axes = scene.shows.names = false;
    chart = new Chart(wanted, view, panels, (t) => { readout.textContent = `t = ${t.toFixed(3)} s`; follow(t); });
    const keys = h("p", { className: "legend" }, view.joints.map((joint, k) => {
      const swatch = h("i", { className: "key" });
      swatch.style.background = jointColour(k);
      return h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => { chart.hidden[event.target.checked ? "delete" : "add"](joint); chart.draw(); } }), " ", swatch, joint);
    }));
    const play = h("button", { type: "button", id: "play", onclick: () => { clearInterval(timer); timer = timer && play.textContent === "Pause" ? 0 : run(play, speed); play.textContent = timer ? "Pause" : "Play"; } }, "Play");
    const buttons = [["in", "+", "Zoom in"], ["out", "−", "Zoom out"], ["left", "←", "Earlier"], ["right", "→", "Later"], ["all", "Whole log", "Whole log"]].map(([action, sign, words]) => h("button", { type: "button", "aria-label": words, title: words, onclick: () => chart.zoom(action) }, sign));
    const which = names.length > 1 ? h("select", { "aria-label": "Log that is shown", onchange: (event) => { wanted = event.target.value; viewed(); } }, names.map((name) => h("option", { value: name, selected: name === wanted }, name === "fit" ? "fitted" : name === "test" ? "test" : name))) : null;
    const facts = `${view.samples} samples, ${short(view.seconds, 4)} s${view.locked.length ? `; not logged, so locked: ${view.locked.join(", ")}` : ""}`;
    look.replaceChildren(h("div", { className: "split wideleft" },
      h("div", { className: "card" }, h("div", { className: "row" }, which, play, speed, readout, buttons, h("span", { className: "quiet" }, facts)), chart.element, keys, h("p", { className: "quiet" }, "Drag moves the playhead; Shift and drag zooms, as do + and −, and the wheel once the chart is chosen. Double-click shows all.")),
      h("div", { className: "card" }, scene.element)));
    const [robot] = await Promise.all([ask("robot", { log: wanted }), window_()]);
    scene.show(robot.value.scene, frames.at(chart.time));
    scene.fit(Array.from({ length: 24 }, (_, k) => frames.at(frames.from + (k / 23) * (frames.to - frames.from))));
    chart.play(time);
  };

  // places of the robot for the stretch that is shown, asked for once and again only where one has zoomed in
  const window_ = async () => {
    const mine = chart, [from, to] = [Math.max(0, mine.from), mine.to], count = 600;
    const { value, data } = await ask("frames", { log: mine.log, begin: from, end: to, count });
    if (mine !== chart) return;
    const each = value.shape.slice(1).reduce((a, b) => a * b, 1), all = new Float32Array(data);
    frames = { from, to, at: (t) => { const k = Math.max(0, Math.min(count - 1, Math.round(((t - from) / (to - from || 1)) * (count - 1)))); return all.subarray(k * each, (k + 1) * each); } };
  };
  const follow = (t) => {
    if (!frames) return;
    const much = (frames.to - frames.from) / Math.max(chart.to - chart.from, 1e-9);
    if ((t < frames.from || t > frames.to || much > 4 || much < 0.3) && !follow.busy) { follow.busy = true; window_().finally(() => { follow.busy = false; if (scene?.data) scene.move(frames.at(chart.time)); }); }
    if (scene?.data) scene.move(frames.at(t));
  };
  const run = (play, speed) => {
    let last = performance.now();
    return setInterval(() => {
      const now = performance.now(), t = chart.time + (Number(speed.value) * (now - last)) / 1000;
      last = now;
      chart.play(t >= chart.view.seconds ? 0 : t);
      if (!play.isConnected) { clearInterval(timer); timer = 0; }
    }, 33);
  };

  const checked = () => app.fill(found, [app.state.check, app.state.locked.run, app.work?.task, "end" in (app.work || { end: 1 })], () => {
    const busy = app.work && !("end" in app.work), one = app.state.check;
    const button = h("button", { type: "button", id: "check", className: "main", disabled: busy || !session.writes || Object.values(app.state.views).some((view) => view.error), onclick: () => app.try(() => post("/work", { task: "check" })) }, one ? "Check again" : "Check the logs");
    if (!one) return [h("h2", {}, "Check"), h("p", { className: "quiet" }, app.state.checked_before ? "Inputs have changed since the last check." : "Is every column what it should be, and does the motion show the parameters? Identification is locked until this is done."), button];
    const { level } = one, page = h("iframe", { src: "/notes/check.html", title: "The check in full", loading: "lazy" });
    return [h("h2", {}, "Check"), verdict(level, one.headline, one.next.slice(0, 2).map((text) => h("p", {}, text))), notices(one.notices.filter((each) => each.level !== "info")),
      h("div", { className: "row" }, button, h("button", { type: "button", onclick: () => app.go("identify") }, "Next: identify")),
      h("details", { ontoggle: (event) => { if (event.target.open && !page.isConnected) event.target.append(page); } }, h("summary", {}, "All that was found, joint by joint"))];
  });

  const update = () => {
    listed();
    const any = (app.state.tables.log || []).length > 0;
    look.hidden = found.hidden = !any;
    if (any) { understood(); viewed(); checked(); } else { mapping.hidden = true; shown = asked = ""; }
  };
  return { element, update: () => { if (app.choices) update(); else ask("choices").then(({ value }) => { app.choices = value; update(); }); } };
};
