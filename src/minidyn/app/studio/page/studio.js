// The page of the studio: stages from left to right, the study file beside them, the work below.
import { h, post, session } from "./dom.js";
import { identify } from "./identify.js";
import { judge, motion, use } from "./results.js";
import { logs } from "./logs.js";
import { robot } from "./robot.js";

const STAGES = [["robot", "Robot", robot], ["logs", "Logs", logs], ["motion", "Motion", motion], ["identify", "Identify", identify], ["judge", "Judge", judge], ["use", "Use", use]];
const TASKS = { read: "Reading", check: "Checking", run: "Running" };
const main = document.getElementById("stage"), bar = document.getElementById("stages"), banner = document.getElementById("banner");
const footer = document.getElementById("work"), paper = document.getElementById("study");

const app = { state: null, work: null, writes: false, stages: {}, shown: sessionStorage.getItem("stage") || "robot" };

// an error of an action is a message that stays until the next one
app.try = async (work) => {
  try {
    app.error = "";
    return await work();
  } catch (error) {
    app.error = error.message;
    return undefined;
  } finally {
    messages();
  }
};

app.go = (name) => {
  app.shown = name;
  sessionStorage.setItem("stage", name);
  render();
  main.scrollTo(0, 0);
  main.focus();
};

const messages = () => {
  const lines = [];
  if (app.lost) lines.push(["bad", "The studio does not answer: it was ended, or the connection is lost. Nothing is lost; start it again with the same folder."]);
  else if (app.state && !app.writes) lines.push(["", "Another window changes this study; this one only looks."]);
  if (app.message) lines.push(["bad", app.message]);
  if (app.error) lines.push(["bad", app.error]);
  const text = JSON.stringify(lines);
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  banner.replaceChildren(...lines.map(([kind, words]) => h("p", { className: kind }, words)));
};

const doneOf = (name) => {
  const results = Object.fromEntries(app.state.results.map((one) => [one.name, one.state]));
  return { robot: Boolean(app.state.tables.robot), logs: app.state.check && app.state.check.level !== "bad", motion: results["excite-motion"] === "unchanged", identify: results.identify === "unchanged", judge: results.validate === "unchanged", use: results.export === "unchanged" }[name];
};

const tabs = () => {
  const focused = document.activeElement?.dataset?.stage;
  bar.replaceChildren(...STAGES.map(([name, title], k) => {
    const why = app.state.locked[name];
    return h("button", {
      type: "button", className: `${why ? "locked" : ""} ${doneOf(name) ? "done" : ""}`, title: why || title, "data-stage": name,
      "aria-current": name === app.shown ? "step" : null, onclick: () => app.go(name),
    }, h("span", { className: why ? "mark lock" : "mark", "aria-hidden": "true" }, why ? "" : doneOf(name) ? "✓" : String(k + 1)), title, why ? h("span", { className: "hidden" }, " (locked)") : null);
  }));
  if (focused) bar.querySelector(`[data-stage="${focused}"]`)?.focus();
};

const study = () => {
  const lines = app.state.study.trimEnd().split("\n");
  const before = new Set(app.lines && app.lines.length > 3 ? app.lines : lines);
  if (app.lines && app.lines.join("\n") === lines.join("\n")) return;
  app.lines = lines;
  paper.replaceChildren(...lines.map((line) => h("span", { className: `${line.startsWith("#") ? "note" : line.startsWith("[") ? "head" : ""} ${before.has(line) || !line ? "" : "new"}` }, line)));
};

const seconds = (value) => (value < 90 ? `${Math.round(value)} s` : `${Math.round(value / 60)} min`);
const progress = () => {
  const { work } = app;
  const isOver = !work || "end" in work;
  footer.hidden = !work || (isOver && work.end === "done");
  footer.className = isOver ? work?.end || "" : "";
  if (footer.hidden) return;
  if (isOver) {
    footer.replaceChildren(h("p", { className: "words" }, work.text), h("button", { type: "button", onclick: () => { footer.hidden = true; } }, "Close"));
    return;
  }
  const share = work.share ?? work.done / Math.max(work.total, 1);
  const left = work.left === undefined || work.left === null ? "" : `, about ${seconds(work.left)} left`;
  if (!document.getElementById("clock")) {
    footer.replaceChildren(
      h("p", {}, h("strong", { id: "task" })), h("progress", { max: 1, "aria-label": "Share of the work that is done" }),
      h("p", { className: "words" }, h("span", { id: "phase" }), h("span", { className: "quiet", id: "clock" })),
      h("button", { type: "button", id: "cancel", onclick: () => app.try(() => post("/cancel")) }, "Cancel"));
  }
  document.getElementById("task").textContent = TASKS[work.task] || work.task;
  footer.querySelector("progress").value = share;
  document.getElementById("phase").textContent = `${work.phase}${work.total > 1 ? ` (${Math.min(work.done + 1, work.total)} of ${work.total})` : ""}`;
  document.getElementById("clock").textContent = ` · ${seconds(work.seconds || 0)}${left}`;
  document.getElementById("cancel").disabled = !app.writes;
  app.began = performance.now() - 1000 * (work.seconds || 0);
};

const render = () => {
  if (!app.state) return;
  tabs();
  study();
  progress();
  messages();
  const folder = document.getElementById("folder");
  folder.textContent = app.state.folder.split(/[\\/]/).slice(-2).join("/");
  folder.title = app.state.folder;
  const [, title, make] = STAGES.find(([name]) => name === app.shown);
  const why = app.state.locked[app.shown];
  if (why) {
    main.replaceChildren(h("h1", {}, title), h("p", { className: "lead" }, why));
    return;
  }
  app.stages[app.shown] ||= make(app);
  const stage = app.stages[app.shown];
  if (main.firstChild !== stage.element) main.replaceChildren(stage.element);
  stage.update();
};

// boxes whose content is made again only where what they show has changed; the focus stays
app.fill = (box, shown, build) => {
  const text = JSON.stringify([shown, session.writes]);
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  const id = document.activeElement?.id, inside = box.contains(document.activeElement);
  box.replaceChildren(...[build()].flat(Infinity).filter(Boolean));
  if (inside && id) document.getElementById(id)?.focus();
};

const events = new EventSource(`/events?window=${session.window}`);
events.addEventListener("message", (event) => {
  const news = JSON.parse(event.data);
  session.window = news.window;
  session.writes = news.writes;
  app.lost = false;
  Object.assign(app, { writes: news.writes, work: news.work, message: news.message });
  if (news.state.locked) app.state = news.state;
  render();
  document.documentElement.dataset.ready = app.state ? "yes" : "";
});
events.addEventListener("error", () => { app.lost = true; messages(); });
setInterval(() => {
  const clock = document.getElementById("clock");
  if (clock && !app.work?.left) clock.textContent = ` · ${seconds((performance.now() - app.began) / 1000)}`;
}, 1000);
