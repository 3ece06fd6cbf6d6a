"use strict";
(() => {
  const SVG = document.querySelector("svg").namespaceURI;
  const data = JSON.parse(document.getElementById("data").textContent);

  // ---------------------------------------------------------------- light and dark
  const theme = document.getElementById("theme");
  const darkNow = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const label = () => {
    theme.textContent = darkNow() ? "Light" : "Dark";
    theme.setAttribute("aria-label", darkNow() ? "Switch to light colours" : "Switch to dark colours");
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = darkNow() ? "light" : "dark";
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  // ---------------------------------------------------------------- folded parts
  const contents = document.querySelector("nav details");
  if (matchMedia("(max-width: 44rem)").matches) contents.open = false;
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => { part.open = true; });
    drawAll();
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));

  // ---------------------------------------------------------------- what is wider than the page says so
  const parts = [...document.querySelectorAll(".scroll")];
  const mark = (part) => {
    part.classList.toggle("wide", part.scrollWidth > part.clientWidth + 2);
    part.classList.toggle("end", part.scrollLeft + part.clientWidth > part.scrollWidth - 4);
  };
  const widths = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  parts.forEach((part) => {
    mark(part);
    widths.observe(part);
    part.addEventListener("scroll", () => mark(part), { passive: true });
  });

  // ---------------------------------------------------------------- commands can be copied
  const say = (text) => { document.getElementById("status").textContent = text; };
  const copy = async (element) => {
    try {
      await navigator.clipboard.writeText(element.textContent);
    } catch {
      getSelection().selectAllChildren(element); // older browsers, and pages that may not use the clipboard
      document.execCommand("copy");
    }
  };
  document.querySelectorAll(".command .copy").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("code"));
      button.textContent = "Copied";
      say("Copied");
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  });

  // ---------------------------------------------------------------- parameters can be filtered and saved
  const filters = document.querySelector(".filters");
  if (filters) {
    filters.hidden = false;
    const rows = [...filters.parentElement.querySelectorAll(".estimates tbody tr")];
    const choose = (kind) => {
      let group = null;
      rows.forEach((row) => {
        if (row.classList.contains("group")) { group = row; row.hidden = kind !== "all"; return; }
        row.hidden = kind !== "all" && !row.querySelector(`.chip.${kind}`);
        if (!row.hidden && group) group.hidden = false;
      });
      filters.querySelectorAll("[data-filter]").forEach((button) => {
        button.setAttribute("aria-pressed", String(button.dataset.filter === kind));
      });
      say(`${rows.filter((row) => !row.hidden && !row.classList.contains("group")).length} parameters shown`);
    };
    filters.querySelectorAll("[data-filter]").forEach((button) => {
      button.addEventListener("click", () => choose(button.dataset.filter));
    });
    addEventListener("beforeprint", () => choose("all"));
  }
  const cell = (value) => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t]/.test(value) ? `'${value}` : value; // a spreadsheet would run it
    return /[",\n\r;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  document.querySelectorAll("[data-save]").forEach((button) => {
    button.addEventListener("click", () => {
      const { file, columns, rows } = data[button.dataset.save];
      const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = file;
      link.click();
      URL.revokeObjectURL(link.href);
      say(`Saved as ${file}`);
    });
  });

  // ---------------------------------------------------------------- the robot can be turned
  const robot = document.querySelector(".turnable svg");
  if (robot) {
    const points = data.robot.points.map((p) => p.map((x) => x / 10000));
    const { size, height, margin, lowest, highest } = data.robot;
    let { turn, tilt } = data.robot;
    const faces = robot.querySelector(".faces");
    const place = () => {
      const c = Math.cos(turn), s = Math.sin(turn), ct = Math.cos(tilt), st = Math.sin(tilt);
      const seen = points.map(([x, y, z]) => (
        [-s * x + c * y, -st * c * x - st * s * y + ct * z, ct * c * x + ct * s * y + st * z]
      ));
      const ends = [0, 1].map((k) => [Math.min(...seen.map((p) => p[k])), Math.max(...seen.map((p) => p[k]))]);
      const middle = ends.map(([low, high]) => (low + high) / 2);
      const spans = ends.map(([low, high]) => Math.max(high - low, 1e-9));
      const scale = size * Math.min((1 - 2 * margin) / spans[0], (height - 2 * margin) / spans[1]);
      const at = (k) => [
        (size / 2 + scale * (seen[k][0] - middle[0])).toFixed(1),
        ((height * size) / 2 - scale * (seen[k][1] - middle[1])).toFixed(1),
      ].join(",");
      if (faces) { // the nearest last
        const depth = (e) => e.dataset.points.split(" ").reduce((sum, k) => sum + seen[k][2], 0);
        const order = [...faces.children].map((e) => [depth(e), e]).sort((a, b) => a[0] - b[0]);
        faces.append(...order.map(([, e]) => e));
      }
      robot.querySelectorAll("[data-points]").forEach((e) => {
        e.setAttribute("points", e.dataset.points.split(" ").map(at).join(" "));
      });
      robot.querySelectorAll("[data-at]").forEach((e) => e.setAttribute("transform", `translate(${at(e.dataset.at)})`));
    };
    const move = (a, b) => {
      turn += a;
      tilt = Math.max(lowest, Math.min(highest, tilt + b));
      place();
    };
    robot.tabIndex = 0;
    robot.setAttribute("aria-roledescription", "figure that arrow keys turn");
    robot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0.12, 0], ArrowRight: [-0.12, 0], ArrowUp: [0, 0.12], ArrowDown: [0, -0.12] }[event.key];
      if (step) { event.preventDefault(); move(...step); }
    });
    let last = null;
    robot.addEventListener("pointerdown", (event) => {
      last = [event.clientX, event.clientY];
      robot.setPointerCapture(event.pointerId);
    });
    robot.addEventListener("pointermove", (event) => {
      if (!last) return;
      move(-(event.clientX - last[0]) / 120, (event.clientY - last[1]) / 120);
      last = [event.clientX, event.clientY];
    });
    ["pointerup", "pointercancel"].forEach((name) => robot.addEventListener(name, () => { last = null; }));
  }

  // ---------------------------------------------------------------- torques can be zoomed
  const TOP = 150, GAP = 34, BOTTOM = 62, LEFT = 56, RIGHT = 8, HEAD = 20, FOOT = 36;
  const unpack = (p) => {
    const values = (list) => Float64Array.from(list, (k) => (k === null ? NaN : p.offset + p.step * k));
    const low = values(p.low);
    return { low, high: p.high ? values(p.high) : low };
  };
  const runs = {};
  const runOf = (key) => {
    if (!runs[key]) {
      const t = unpack(data.runs[key].t).low;
      const joints = data.runs[key].joints.map((j) => (
        Object.fromEntries(Object.entries(j).map(([name, packed]) => [name, unpack(packed)]))
      ));
      runs[key] = { t, joints, from: t[0], to: t[t.length - 1], figures: [] };
    }
    return runs[key];
  };
  const make = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const stepOf = (span, wanted) => {
    const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
    return power * [1, 2, 5, 10].find((f) => f * power >= raw * 0.999);
  };
  const shown = (value, step) => {
    const places = Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    return value.toFixed(places).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");
  };
  const first = (t, value) => {
    let low = 0, high = t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (t[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  };
  const range = (signals, begin, end, floor) => {
    let low = Infinity, high = -Infinity;
    for (const s of signals) {
      for (let k = begin; k < end; k++) {
        if (s.low[k] < low) low = s.low[k];
        if (s.high[k] > high) high = s.high[k];
      }
    }
    if (!(high >= low)) return [-1, 1];
    const span = Math.max(high - low, floor, 1e-12), middle = (low + high) / 2;
    return [middle - 0.54 * span, middle + 0.54 * span];
  };
  // one column of pixels shows the smallest and the largest value in it: peaks stay
  const path = (t, s, begin, end, x, y, width) => {
    const parts = [];
    let drawing = false;
    const point = (a, b) => { parts.push(`${drawing ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`); drawing = true; };
    if (end - begin < 2 * width) {
      for (let k = begin; k < end; k++) {
        if (Number.isNaN(s.low[k])) { drawing = false; continue; }
        point(x(t[k]), y(s.low[k]));
        if (s.high[k] !== s.low[k]) point(x(t[k]), y(s.high[k]));
      }
      return parts.join("");
    }
    const size = Math.ceil((end - begin) / width);
    for (let k = begin; k < end; k += size) {
      let low = Infinity, high = -Infinity, broken = false;
      for (let i = k; i < Math.min(k + size, end); i++) {
        if (Number.isNaN(s.low[i])) { broken = true; continue; }
        low = Math.min(low, s.low[i]);
        high = Math.max(high, s.high[i]);
      }
      if (high >= low) { point(x(t[k]), y(low)); point(x(t[k]), y(high)); }
      if (broken) drawing = false;
    }
    return parts.join("");
  };
  const axes = (svg, [low, high], top, height, x, width, from, to, options) => {
    const y = (v) => top + height * (1 - (v - low) / (high - low));
    const rise = stepOf(high - low, options.rows), stride = stepOf(to - from, Math.max(3, Math.min(8, width / 110)));
    for (let k = Math.ceil(low / rise - 1e-9); k <= high / rise + 1e-9; k++) {
      svg.append(make("line", { class: k === 0 ? "grid zero" : "grid", x1: LEFT, x2: LEFT + width, y1: y(k * rise), y2: y(k * rise) }));
      svg.append(make("text", { class: "tick end", x: LEFT - 6, y: y(k * rise) + 3.5 }, shown(k * rise, rise)));
    }
    for (let k = Math.ceil(from / stride - 1e-9); k <= to / stride + 1e-9; k++) {
      svg.append(make("line", { class: "grid", x1: x(k * stride), x2: x(k * stride), y1: top, y2: top + height }));
      if (options.times) svg.append(make("text", { class: "tick middle", x: x(k * stride), y: top + height + 15 }, shown(k * stride, stride)));
    }
    svg.append(make("text", { class: "label", x: LEFT, y: top - 7 }, options.label));
    if (options.times) svg.append(make("text", { class: "label end", x: LEFT + width, y: top + height + 30 }, "time, s"));
    return y;
  };
  const draw = (figure) => {
    const { run, joint, svg, unit } = figure;
    const full = Math.round(figure.box.clientWidth);
    if (full < 120) return;
    const width = full - LEFT - RIGHT, s = run.joints[joint];
    const x = (v) => LEFT + (width * (v - run.from)) / (run.to - run.from || 1);
    const begin = Math.max(0, first(run.t, run.from) - 1), end = Math.min(run.t.length, first(run.t, run.to) + 2);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${full} ${HEAD + TOP + GAP + BOTTOM + FOOT}`);
    const clip = `clip-${figure.key}-${joint}`;
    const inside = make("clipPath", { id: clip });
    inside.append(make("rect", { x: LEFT, y: HEAD, width, height: TOP }));
    inside.append(make("rect", { x: LEFT, y: HEAD + TOP + GAP - 4, width, height: BOTTOM + 8 }));
    svg.append(inside);
    const upper = range([s.measured, s.model], begin, end, 0);
    if (s.prior) { // room for it, half as much again at most
      const air = (upper[1] - upper[0]) / 2, [low, high] = range([s.prior], begin, end, 0);
      [upper[0], upper[1]] = [
        Math.min(upper[0], Math.max(low, upper[0] - air)), Math.max(upper[1], Math.min(high, upper[1] + air)),
      ];
    }
    const y = axes(svg, upper, HEAD, TOP, x, width, run.from, run.to,
      { rows: 5, label: unit === "N" ? "force, N" : `torque, ${unit}` });
    const lower = range([s.residual], begin, end, 0.02 * (upper[1] - upper[0]));
    const z = axes(svg, lower, HEAD + TOP + GAP, BOTTOM, x, width, run.from, run.to,
      { rows: 4, label: `measured − model, ${unit}`, times: true });
    const lines = make("g", { "clip-path": `url(#${clip})` });
    for (const [name, place] of [["measured", y], ["prior", y], ["model", y], ["residual", z]]) {
      if (s[name]) lines.append(make("path", { class: name, d: path(run.t, s[name], begin, end, x, place, width) }));
    }
    svg.append(lines);
    figure.brush = make("rect", { class: "brush", y: HEAD, height: TOP + GAP + BOTTOM, width: 0 });
    figure.cursor = make("line", { class: "cursor", y1: HEAD, y2: HEAD + TOP + GAP + BOTTOM, visibility: "hidden" });
    svg.append(figure.brush, figure.cursor);
    figure.timeAt = (clientX) => {
      const box = svg.getBoundingClientRect();
      const px = ((clientX - box.left) * full) / box.width;
      return run.from + ((run.to - run.from) * (Math.max(LEFT, Math.min(LEFT + width, px)) - LEFT)) / width;
    };
    figure.x = x;
  };
  const figures = [];
  const drawAll = () => figures.forEach(draw);
  const show = (run, from, to) => {
    const start = run.t[0], stop = run.t[run.t.length - 1];
    const least = 6 * (stop - start) / run.t.length, span = Math.max(Math.min(to - from, stop - start), least);
    run.from = Math.max(start, Math.min((from + to - span) / 2, stop - span));
    run.to = Math.min(stop, run.from + span);
    run.figures.forEach(draw);
    document.getElementById("status").textContent = `Showing ${run.from.toFixed(2)} to ${run.to.toFixed(2)} seconds`;
  };
  const zoom = (run, action, at) => {
    const span = run.to - run.from, centre = at === undefined ? (run.from + run.to) / 2 : at;
    const part = (centre - run.from) / (span || 1);
    const to = (factor) => show(run, centre - part * span * factor, centre + (1 - part) * span * factor);
    if (action === "in") to(0.5);
    else if (action === "out") to(2);
    else if (action === "left") show(run, run.from - span / 4, run.to - span / 4);
    else if (action === "right") show(run, run.from + span / 4, run.to + span / 4);
    else show(run, run.t[0], run.t[run.t.length - 1]);
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all", Escape: "all" };
  document.querySelectorAll(".series").forEach((box) => {
    const run = runOf(box.dataset.run), svg = box.querySelector("svg"), readout = box.querySelector(".readout");
    const figure = { run, key: box.dataset.run, joint: +box.dataset.joint, unit: box.dataset.unit, box, svg };
    figures.push(figure);
    run.figures.push(figure);
    svg.tabIndex = 0;
    svg.setAttribute("aria-roledescription", "figure that plus, minus and arrow keys zoom and move");
    svg.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (action && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); zoom(run, action); }
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== svg) return; // the page scrolls unless the figure was chosen
      event.preventDefault();
      zoom(run, event.deltaY < 0 ? "in" : "out", figure.timeAt(event.clientX));
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      from = event.clientX;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const time = figure.timeAt(event.clientX), s = run.joints[figure.joint];
      const k = Math.max(0, Math.min(run.t.length - 1, first(run.t, time)));
      const px = figure.x(run.t[k]);
      figure.cursor.setAttribute("x1", px);
      figure.cursor.setAttribute("x2", px);
      figure.cursor.setAttribute("visibility", "visible");
      const value = (signal) => ((signal.low[k] + signal.high[k]) / 2).toPrecision(4).replace("-", "−");
      readout.textContent = `t = ${run.t[k].toFixed(3)} s   measured ${value(s.measured)}   model ${value(s.model)}   ` +
        (s.prior ? `before ${value(s.prior)}   ` : "") +
        `difference ${value(s.residual)} ${figure.unit}`;
      if (from === null) return;
      const a = figure.x(figure.timeAt(from)), b = figure.x(time);
      figure.brush.setAttribute("x", Math.min(a, b));
      figure.brush.setAttribute("width", Math.abs(b - a));
    });
    svg.addEventListener("pointerleave", () => {
      figure.cursor.setAttribute("visibility", "hidden");
      readout.textContent = "";
    });
    svg.addEventListener("pointerup", (event) => {
      if (from !== null && Math.abs(event.clientX - from) > 6) {
        const [a, b] = [figure.timeAt(from), figure.timeAt(event.clientX)];
        show(run, Math.min(a, b), Math.max(a, b));
      }
      from = null;
      figure.brush.setAttribute("width", 0);
    });
    svg.addEventListener("dblclick", () => zoom(run, "all"));
  });
  document.querySelectorAll(".linked").forEach((group) => {
    group.querySelectorAll("[data-zoom]").forEach((button) => {
      button.addEventListener("click", () => zoom(runOf(group.dataset.run), button.dataset.zoom));
    });
  });
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => {
    const figure = figures.find((one) => one.box === entry.target);
    if (Math.round(figure.box.clientWidth) !== figure.width) {
      figure.width = Math.round(figure.box.clientWidth);
      draw(figure);
    }
  }));
  figures.forEach((figure) => { draw(figure); watch.observe(figure.box); });
  document.documentElement.dataset.ready = "yes";
})();
