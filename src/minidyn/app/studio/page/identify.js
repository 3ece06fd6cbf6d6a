// Stage 4: identification. Every option with its default, the run, and the table of decisions.
import { act, ask, h, post, session, short, table } from "./dom.js";

const FIRST = ["method", "friction", "rotor_inertia", "consistent", "cutoff", "prior"];

const shownAs = (value) => (value === null || value === undefined ? "" : Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));
// what was typed: a number, true or false, a list of words or numbers, else a text
const typed = (text) => {
  const plain = text.trim();
  if (plain === "") return null;
  try { return JSON.parse(plain); } catch { /* a word or a list of words */ }
  return plain.includes(",") ? plain.split(",").map((one) => one.trim()).filter(Boolean).map((one) => (Number.isNaN(Number(one)) ? one : Number(one))) : plain;
};

export const identify = (app) => {
  const form = h("div", { className: "card" }), go = h("div", { className: "card" }), decisions = h("div", { className: "card" });
  const element = h("div", {}, h("h1", {}, "Identify"), h("p", { className: "lead" }, "Run fits the model to the logs, tests it, and writes the report. Every option has its default; what is changed is a line of the study file."), go, h("div", { className: "split even" }, decisions, form));
  let rows = null, of = "";

  const field = (one) => {
    const tables = app.state.tables, given = tables.identify?.[one.name] ?? tables.preparation?.[one.name];
    const id = `set-${one.name}`, send = (value) => app.try(() => act("setting", { name: one.name, value }));
    const common = { id, disabled: !session.writes };
    const names = one.name === "method" ? Object.keys(app.choices.methods) : null;
    let input;
    if (names) input = h("select", { ...common, onchange: (event) => send(event.target.value === one.default ? null : event.target.value) }, names.map((name) => h("option", { value: name, selected: name === (given ?? one.default) }, `${name}: ${app.choices.methods[name]}`)));
    else if (typeof one.default === "boolean" && typeof (given ?? true) === "boolean") input = h("input", { ...common, type: "checkbox", checked: given ?? one.default, onchange: (event) => send(event.target.checked === one.default ? null : event.target.checked) });
    else input = h("input", { ...common, type: "text", value: shownAs(given), placeholder: shownAs(one.default) || "default", onchange: (event) => send(typed(event.target.value)) });
    return [h("label", { htmlFor: id, className: given === undefined ? "" : "changed" }, one.name), input, h("p", {}, one.about, given === undefined ? null : h("button", { type: "button", disabled: !session.writes, onclick: () => send(null) }, "default"))];
  };

  const options = () => app.fill(form, [app.state.tables.identify, app.state.tables.preparation], () => {
    const all = app.choices.settings, first = FIRST.map((name) => all.find((one) => one.name === name)).filter(Boolean);
    const rest = all.filter((one) => !first.includes(one)), open = form.querySelector("details")?.open;
    return [h("h2", {}, "Options"), h("div", { className: "form" }, first.map(field)), h("details", { open }, h("summary", {}, `All options (${rest.length} more)`), h("div", { className: "form" }, rest.map(field)))];
  });

  const running = () => {
    const busy = Boolean(app.work && !("end" in app.work)), results = Object.fromEntries(app.state.results.map((one) => [one.name, one]));
    const why = app.state.locked.run, forced = app.state.tables.identify?.force === true, { check } = app.state;
    app.fill(go, [why, busy, results.identify?.state, results.validate?.state, forced, check?.level], () => [
      h("div", { className: "row" },
        h("button", { type: "button", id: "run", className: "main", disabled: Boolean(why) || busy || !session.writes, onclick: () => app.try(() => post("/work", { task: "run", only: ["identify", "validate", "report"].filter((name) => name in app.state.tables) })) }, "Run"),
        why ? h("span", {}, why) : h("span", { className: "chip good" }, "checked for exactly these inputs"),
        check?.level === "bad" ? h("label", {}, h("input", { type: "checkbox", id: "force", checked: forced, disabled: !session.writes, onchange: (event) => app.try(() => act("setting", { name: "force", value: event.target.checked || null })) }), " fit although the check failed") : null,
        results.identify?.state === "unchanged" ? h("button", { type: "button", id: "to-judge", onclick: () => app.go("judge") }, "Next: judge") : null),
      table(["step", "state"], ["identify", "validate", "report"].filter((name) => results[name]).map((name) => [name, results[name].state === "unchanged" ? "done, up to date" : results[name].text || "to do"])),
    ]);
  };

  const tried = async () => {
    const step = app.state.results.find((one) => one.name === "identify"), key = step?.state === "unchanged" ? JSON.stringify(step.summary) : "";
    if (key !== of) {
      of = key;
      rows = null;
      if (key) {
        const response = await fetch("/results/identify/estimate.json");
        rows = response.ok ? (await response.json()).record.selection || [] : null;
      }
    }
    const live = app.work && !("end" in app.work) && app.work.decisions;
    app.fill(decisions, [live || rows], () => {
      const title = h("h2", {}, "What was tried"), most = Math.max(0, ...(live || rows || []).map((one) => one.joints.length));
      if (live) { rows = null; of = ""; }
      const list = live || rows;
      if (!list) return [title, h("p", { className: "quiet" }, "After a run: every candidate term, what it gained on blocks of time that were not fitted, and whether the model has it.")];
      return [title, h("p", { className: "quiet" }, `${list.length} candidates${live ? " so far" : ""}, ${list.filter((one) => one.taken).length} taken. Gains are in nats a sample of held-out time.`),
        table(["candidate", "joints", "gain", "± std."], list.map((one) => ({ kind: one.taken ? "taken" : "", cells: [`${one.taken ? "✓ " : ""}${one.candidate}`, one.joints.length === 0 || one.joints.length === most ? "all" : one.joints.join(", "), short(one.gain), short(one.standard_error, 2)] })), [2, 3])];
    });
  };

  const update = () => { options(); running(); tried(); };
  return { element, update: () => { if (app.choices) update(); else ask("choices").then(({ value }) => { app.choices = value; update(); }); } };
};
