// Signals over time: a panel for each kind, a line for each joint. Finer data are asked for when one zooms;
// the playhead is an element of its own, so that moving it draws no line again.
import { ask, colour, h, jointColour, minus } from "./dom.js";

const LEFT = 58, RIGHT = 10, GAP = 18, FOOT = 26;
const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all", Escape: "all" };

const stepOf = (span, wanted) => {
  const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
};
const tick = (value, step) => minus(value.toFixed(Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))).replace(/^-(0\.?0*)$/, "$1"));

export class Chart {
  constructor(log, view, panels, ontime) {
    this.log = log; this.view = view; this.panels = panels; this.ontime = ontime;
    this.from = 0; this.to = view.seconds || 1; this.time = 0; this.hidden = new Set(); this.fetched = 0;
    this.canvas = h("canvas", {});
    this.head = h("div", { className: "playhead" });
    this.brush = h("div", { className: "brush", hidden: true });
    this.element = h("div", { className: "chart", tabIndex: 0, role: "img", "aria-label": "Signals of the log; plus, minus and arrow keys zoom and move, comma and full stop move the playhead" }, this.canvas, this.brush, this.head);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.load();
  }

  get width() { return this.element.clientWidth - LEFT - RIGHT; }
  x(t) { return LEFT + (this.width * (t - this.from)) / (this.to - this.from); }
  at(clientX) {
    const px = clientX - this.element.getBoundingClientRect().left;
    return this.from + ((this.to - this.from) * Math.max(0, Math.min(this.width, px - LEFT))) / this.width;
  }

  listen() {
    let start = null;
    this.element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const nudge = { ",": -1, ".": 1 }[event.key];
      if (nudge) { event.preventDefault(); this.play(this.time + (nudge * (this.to - this.from)) / 200); }
      if (KEYS[event.key]) { event.preventDefault(); this.zoom(KEYS[event.key]); }
    });
    this.element.addEventListener("wheel", (event) => {
      if (document.activeElement !== this.element && !event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? "in" : "out", this.at(event.clientX));
    }, { passive: false });
    this.element.addEventListener("pointerdown", (event) => { start = event.clientX; this.element.setPointerCapture(event.pointerId); });
    this.element.addEventListener("pointermove", (event) => {
      if (start === null) return;
      if (event.shiftKey) {
        const box = this.element.getBoundingClientRect(), [a, b] = [start, event.clientX].sort((p, q) => p - q);
        this.brush.hidden = false;
        this.brush.style.left = `${a - box.left}px`;
        this.brush.style.width = `${b - a}px`;
      } else this.play(this.at(event.clientX));
    });
    this.element.addEventListener("pointerup", (event) => {
      if (start !== null && !this.brush.hidden) { const [a, b] = [this.at(start), this.at(event.clientX)]; this.show(Math.min(a, b), Math.max(a, b)); }
      else if (start !== null) this.play(this.at(event.clientX));
      this.brush.hidden = true;
      start = null;
    });
    this.element.addEventListener("dblclick", () => this.zoom("all"));
  }

  zoom(action, at = undefined) {
    const span = this.to - this.from, centre = at ?? Math.min(this.to, Math.max(this.from, this.time)), part = (centre - this.from) / span;
    if (action === "all") this.show(0, this.view.seconds);
    else if (action === "left" || action === "right") { const by = (action === "left" ? -1 : 1) * span / 4; this.show(this.from + by, this.to + by); }
    else { const factor = action === "in" ? 0.5 : 2; this.show(centre - part * span * factor, centre + (1 - part) * span * factor); }
  }

  show(from, to) {
    const all = this.view.seconds || 1, span = Math.min(Math.max(to - from, Math.min(all, 10 * all / this.view.samples)), all);
    this.from = Math.max(0, Math.min(from, all - span));
    this.to = this.from + span;
    this.draw();
    this.load();
  }

  play(t) {
    this.time = Math.max(0, Math.min(this.view.seconds, t));
    this.place();
    this.ontime(this.time);
  }

  place() {
    const x = this.x(this.time), inside = this.time >= this.from && this.time <= this.to;
    this.head.style.transform = `translateX(${x}px)`;
    this.head.hidden = !inside;
  }

  async load() {
    this.aborted?.abort();
    const mine = (this.aborted = new AbortController());
    try {
      const columns = this.view.columns.map((_, k) => k);
      const { value, data } = await ask("signals", { log: this.log, begin: this.from, end: this.to, groups: Math.max(500, Math.round(2.5 * (this.width || 800))), columns }, mine.signal);
      const { rows } = value, count = columns.length;
      this.part = {
        t: Float64Array.from(new Float32Array(data, 0, rows), (t) => t + value.origin),
        low: new Float32Array(data, 4 * rows, rows * count),
        high: new Float32Array(data, 4 * rows * (1 + count), rows * count),
        gap: new Uint8Array(data, 4 * rows * (1 + 2 * count), rows * count),
        rows, count, size: value.size,
      };
      this.fetched += 1;
      this.element.dataset.fetched = this.fetched;
      this.element.dataset.size = value.size;
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }

  range(columns) {
    let low = Infinity, high = -Infinity;
    const { part } = this;
    for (let k = 0; k < part.rows; k++) {
      if (part.t[k] < this.from || part.t[k] > this.to) continue;
      for (const c of columns) {
        const a = part.low[k * part.count + c], b = part.high[k * part.count + c];
        if (a < low) low = a;
        if (b > high) high = b;
      }
    }
    if (!(high >= low)) return [-1, 1];
    const span = Math.max(high - low, 1e-9), middle = (low + high) / 2;
    return [middle - 0.54 * span, middle + 0.54 * span];
  }

  draw() {
    const wide = this.element.clientWidth, high = this.element.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!wide || !this.part) return;
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = Math.round(high * ratio);
    const paper = this.canvas.getContext("2d");
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    paper.font = "11px system-ui, sans-serif";
    const height = (high - FOOT - GAP * this.panels.length) / this.panels.length;
    const stride = stepOf(this.to - this.from, Math.max(3, Math.min(9, this.width / 100)));
    this.ranges = [];
    this.panels.forEach((panel, number) => {
      const top = GAP + number * (height + GAP), columns = panel.columns.filter((c) => !this.hidden.has(this.view.columns[c][1]));
      const [low, up] = this.range(columns), y = (v) => top + height * (1 - (v - low) / (up - low)), rise = stepOf(up - low, 4);
      this.ranges.push([low, up]);
      paper.strokeStyle = colour("--line");
      paper.fillStyle = colour("--quiet");
      paper.lineWidth = 1;
      paper.textAlign = "right";
      for (let k = Math.ceil(low / rise - 1e-9); k <= up / rise + 1e-9; k++) {
        paper.strokeRect(LEFT, Math.round(y(k * rise)) + 0.5, this.width, 0);
        paper.fillText(tick(k * rise, rise), LEFT - 6, y(k * rise) + 4);
      }
      paper.textAlign = "center";
      for (let k = Math.ceil(this.from / stride - 1e-9); k <= this.to / stride + 1e-9; k++) {
        paper.strokeRect(Math.round(this.x(k * stride)) + 0.5, top, 0, height);
        if (number === this.panels.length - 1) paper.fillText(`${tick(k * stride, stride)} s`, this.x(k * stride), top + height + 16);
      }
      paper.textAlign = "left";
      paper.fillText(panel.label, LEFT, top - 5);
      paper.save();
      paper.beginPath();
      paper.rect(LEFT, top, this.width, height);
      paper.clip();
      for (const c of columns) this.line(paper, c, y);
      paper.restore();
    });
    this.marked(paper, high - FOOT);
    this.place();
    this.element.dataset.ranges = JSON.stringify(this.ranges);
  }

  line(paper, c, y) {
    const { part } = this;
    paper.strokeStyle = jointColour(this.view.joints.indexOf(this.view.columns[c][1]));
    paper.lineWidth = 1.2;
    paper.beginPath();
    let down = false, isUp = false;
    for (let k = 0; k < part.rows; k++) {
      const low = part.low[k * part.count + c], high = part.high[k * part.count + c];
      if (Number.isNaN(low)) { down = false; continue; }
      const x = this.x(part.t[k]), [first, second] = isUp ? [high, low] : [low, high]; // the shorter way from group to group
      if (down) paper.lineTo(x, y(first)); else paper.moveTo(x, y(first));
      if (high !== low) { paper.lineTo(x, y(second)); isUp = !isUp; }
      down = !part.gap[k * part.count + c];
    }
    paper.stroke();
  }

  // where runs begin and what the check found at a time
  marked(paper, bottom) {
    for (const [t, words, level] of this.view.marks || []) {
      if (t < this.from || t > this.to) continue;
      paper.strokeStyle = paper.fillStyle = colour(level === "error" ? "--bad" : "--caution");
      paper.setLineDash([5, 4]);
      paper.beginPath();
      paper.moveTo(this.x(t), GAP);
      paper.lineTo(this.x(t), bottom);
      paper.stroke();
      paper.setLineDash([]);
      paper.textAlign = "left";
      paper.fillText(words, this.x(t) + 4, GAP + 10);
    }
  }
}
