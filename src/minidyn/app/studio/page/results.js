// Stages 3, 5 and 6: the motion that is designed, the model that is judged, and what it is used for.
import { act, ask, h, notices, percent, post, session, short, verdict } from "./dom.js";

const PARTS = [["summary", "Summary"], ["torque", "Torques"], ["friction", "Friction"], ["decisions", "Decisions"], ["parameters", "Parameters"], ["robot", "Robot"], ["notices", "Notices"]];
const stepOf = (app, name) => app.state.results.find((one) => one.name === name);
const isDone = (step) => step?.state === "unchanged";
const busy = (app) => Boolean(app.work && !("end" in app.work));
const withChoices = (app, update) => () => { if (app.choices) update(); else ask("choices").then(({ value }) => { app.choices = value; update(); }); };

const files = (step) => h("ul", { className: "plain" }, step.files.filter((name) => name !== "provenance.json").map((name) => h("li", {}, h("a", { href: `/results/${step.name}/${name}?download=1`, download: name.split("/").pop() }, name))));

export const judge = (app) => {
  const head = h("div", { className: "card" }), page = h("div", {}), beside = h("div", { className: "card" });
  const element = h("div", {}, h("h1", {}, "Judge"), h("p", { className: "lead" }, "May the model be used? The verdict, the torques of each joint against the measurement, friction, parameters against the robot's file, and what was tried."), head, page, beside);
  const update = () => {
    const fit = stepOf(app, "identify"), test = stepOf(app, "validate"), report = stepOf(app, "report");
    app.fill(head, [fit, test, report], () => {
      const step = isDone(test) ? test : fit, said = step.summary.verdict || fit.summary.verdict;
      const errors = Object.entries(test?.summary?.relative_error || {}), smooth = test?.summary?.filtered_relative_error || {};
      const figures = [...errors.map(([name, value]) => [`error on ${name}`, percent(value)]), ...errors.map(([name]) => [`low-passed, ${name}`, percent(smooth[name])]), ["base parameters", fit.summary.base_parameters], ["samples fitted", fit.summary.samples], ["condition", short(fit.summary.condition)]];
      const weak = (said?.rules || []).filter((rule) => !rule.ok);
      return [said ? verdict(said.level, said.headline, weak.map((rule) => h("p", {}, rule.text))) : h("p", { className: "quiet" }, "Not tested yet."),
        h("dl", { className: "figures" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))),
        h("details", {}, h("summary", {}, "Every rule of the verdict"), h("ul", { className: "plain" }, (said?.rules || []).map((rule) => h("li", {}, h("span", { className: `chip ${rule.level}` }, rule.ok ? "kept" : "not kept"), " ", rule.text))))];
    });
    const step = isDone(report) ? "report" : "identify";
    app.fill(page, [step, stepOf(app, step)?.summary, isDone(fit)], () => {
      const frame = h("iframe", { src: `/results/${step}/report.html`, title: "The report" });
      return [h("div", { className: "row" }, PARTS.map(([key, words]) => h("button", { type: "button", onclick: () => { frame.src = `/results/${step}/report.html#${key}`; } }, words)), h("a", { href: `/results/${step}/report.html?download=1`, download: "report.html" }, "Download the report: it opens without a server")), frame];
    });
    app.fill(beside, [app.state.kept, app.state.compared, busy(app), isDone(fit)], () => [h("h2", {}, "Two estimates side by side"),
      h("div", { className: "row" },
        h("button", { type: "button", id: "keep", disabled: !session.writes, onclick: () => app.try(() => post("/keep")) }, app.state.kept ? "Keep this one instead" : "Keep this estimate"),
        h("button", { type: "button", id: "compare", disabled: !app.state.kept || busy(app) || !session.writes, onclick: () => app.try(() => post("/work", { task: "compare" })) }, "Compare with the kept one"),
        h("span", { className: "quiet" }, "Keep one, change options or logs, run again, and compare: parameters, friction and torques.")),
      app.state.compared ? h("iframe", { src: `/notes/comparison.html?${app.state.compared}`, title: "Two estimates side by side" }) : null]);
  };
  return { element, update };
};

export const use = (app) => {
  const targets = h("div", { className: "card" }), written = h("div", { className: "card" }), study = h("div", { className: "card" });
  const element = h("div", {}, h("h1", {}, "Use"), h("p", { className: "lead" }, "Write the model for other programs. What a format cannot say is listed with the error that it causes on the test data."), targets, written, study);
  const update = () => {
    const wanted = app.state.tables.export?.to || [], step = stepOf(app, "export");
    app.fill(targets, [wanted, busy(app), step?.state], () => [h("h2", {}, "Programs"),
      h("div", { className: "targets" }, Object.entries(app.choices.targets).map(([name, file]) => h("label", {}, h("input", { type: "checkbox", id: `to-${name}`, checked: wanted.includes(name), disabled: !session.writes, onchange: (event) => app.try(() => act("export", { to: event.target.checked ? [...wanted, name] : wanted.filter((one) => one !== name) })) }), ` ${name} `, h("span", { className: "quiet" }, file)))),
      h("button", { type: "button", id: "export", className: "main", disabled: !wanted.length || busy(app) || !session.writes || isDone(step), onclick: () => app.try(() => post("/work", { task: "run", only: ["export"] })) }, isDone(step) ? "Written" : "Write")]);
    app.fill(written, [step], () => (isDone(step)
      ? [h("h2", {}, "Files"), files(step), step.summary.notices?.length ? [h("h2", {}, "What they lose"), notices(step.summary.notices)] : h("p", {}, "Nothing is lost: every file says the whole model.")]
      : h("p", { className: "quiet" }, "Choose programs and write; what each file loses is listed here.")));
    app.fill(study, [app.state.results.map((one) => one.state)], () => [h("h2", {}, "The study"), h("p", {}, "All of this again, to the same bits, without the studio:"), h("pre", {}, h("code", {}, `cd ${app.state.folder}\nminidyn run study.toml`)), h("p", {}, h("a", { href: "/study.toml", download: true }, "study.toml"), " · ", isDone(stepOf(app, "report")) ? h("a", { href: "/results/report/report.html?download=1", download: "report.html" }, "report.html") : null)]);
  };
  return { element, update: withChoices(app, update) };
};

export const motion = (app) => {
  const form = h("div", { className: "card" }), shown = h("div", {});
  const element = h("div", {}, h("h1", {}, "Motion"), h("p", { className: "lead" }, "Optional: design a motion that shows the parameters, within the limits of the joints and clear of the floor, and look at it before the robot runs it."), form, shown);
  const update = () => {
    const table = app.state.tables.excite?.[0], step = stepOf(app, "excite-motion");
    app.fill(form, [table, busy(app), step?.state], () => {
      const field = (id, words, input) => h("label", { className: "row" }, h("span", {}, words), Object.assign(input, { id, disabled: !session.writes }));
      const duration = h("input", { type: "number", min: 1, step: "any", value: table?.duration ?? 10 });
      const purpose = h("select", {}, app.choices.purposes.map((name) => h("option", { value: name, selected: name === (table?.purpose ?? app.choices.purposes[0]) }, name)));
      const seconds = h("input", { type: "number", min: 1, step: "any", value: table?.time_limit ?? 20 }), floor = h("input", { type: "checkbox", checked: table?.floor ?? true });
      const forms = h("select", { multiple: true, size: 3 }, app.choices.motion_formats.map((name) => h("option", { value: name, selected: table?.formats?.includes(name) }, name)));
      const send = () => act("motion", { duration: Number(duration.value), purpose: purpose.value, time_limit: Number(seconds.value), floor: floor.checked, formats: [...forms.selectedOptions].map((one) => one.value) });
      return h("div", { className: "row" }, field("motion-duration", "Length, s", duration), field("motion-purpose", "To identify", purpose), field("motion-limit", "Design for at most, s", seconds), field("motion-floor", "Robot stands on a floor", floor), field("motion-formats", "Files beside CSV", forms),
        h("button", { type: "button", id: "design", className: "main", disabled: busy(app) || !session.writes, onclick: () => app.try(async () => { await send(); await post("/work", { task: "run", only: ["excite-motion"] }); }) }, "Design"),
        table ? h("button", { type: "button", disabled: busy(app) || !session.writes, onclick: () => app.try(() => act("motion", {})) }, "Remove") : null);
    });
    app.fill(shown, [step], () => (isDone(step)
      ? [h("div", { className: "card" }, h("h2", {}, "Files for the robot"), files(step), step.summary.notices?.length ? h("details", {}, h("summary", {}, "What was assumed, and was not checked"), notices(step.summary.notices)) : null), h("iframe", { src: `/results/${step.name}/preview.html`, title: "Preview of the motion" })]
      : null));
  };
  return { element, update: withChoices(app, update) };
};
