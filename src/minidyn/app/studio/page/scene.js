// A robot in 3D: links, joints, axes and gravity, drawn with WebGL; turned by the mouse or arrow keys.
import { colour, h } from "./dom.js";

const VERTEX = `
attribute vec3 place; attribute vec3 normal; uniform mat4 body, view; uniform vec3 scale; varying vec3 n;
void main() { n = mat3(body) * (normal / scale); gl_Position = view * body * vec4(place * scale, 1.0); gl_Position.z *= 0.2; }`;
const FRAGMENT = `
precision mediump float; uniform vec4 paint; uniform float lit; varying vec3 n;
void main() { vec3 m = normalize(n); float light = 0.42 + 0.5 * abs(dot(m, normalize(vec3(0.35, 0.5, 0.8)))) + 0.08 * m.z;
  gl_FragColor = vec4(paint.rgb * mix(1.0, light, lit), paint.a); }`;
const LEVELS = { identifiable: "--identifiable", "in combination": "--combined", "no effect": "--none" };

const rgb = (text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16) / 255);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const minus = (a, b) => a.map((value, k) => value - b[k]);
const size = (a) => Math.hypot(...a);
const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
const unit = (a) => { const length = size(a) || 1; return a.map((value) => value / length); };
const mean = (list) => [0, 1, 2].map((k) => list.reduce((sum, p) => sum + p[k], 0) / list.length);

const cylinder = () => {
  const places = [], normals = [], n = 20;
  for (let k = 0; k < n; k++) {
    const [a, b] = [k, k + 1].map((i) => [Math.cos((2 * Math.PI * i) / n), Math.sin((2 * Math.PI * i) / n)]);
    for (const [p, z] of [[a, 0], [b, 0], [b, 1], [a, 0], [b, 1], [a, 1]]) { places.push(p[0], p[1], z); normals.push(p[0], p[1], 0); }
    for (const z of [0, 1]) for (const p of [[0, 0], a, b]) { places.push(p[0], p[1], z); normals.push(0, 0, 1); }
  }
  return { places, normals };
};
const ball = () => {
  const places = [], normals = [], n = 14;
  const at = (i, j) => {
    const u = (Math.PI * i) / n, v = (2 * Math.PI * j) / n;
    return [Math.sin(u) * Math.cos(v), Math.sin(u) * Math.sin(v), Math.cos(u)];
  };
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    for (const [a, b] of [[i, j], [i + 1, j], [i + 1, j + 1], [i, j], [i + 1, j + 1], [i, j + 1]]) { const p = at(a, b); places.push(...p); normals.push(...p); }
  }
  return { places, normals };
};

export class Scene {
  constructor(words, onpick = () => {}) {
    this.canvas = h("canvas", { tabIndex: 0, role: "img", "aria-label": words });
    this.marks = h("canvas", { className: "words", "aria-hidden": "true" });
    this.element = h("div", { className: "scene" }, this.canvas, this.marks);
    this.gl = this.canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    this.turn = 0.7; this.tilt = 0.35; this.zoom = 1; this.levels = {}; this.shows = { axes: true, frames: false, names: true };
    this.onpick = onpick; this.chosen = -1; this.drawn = 0;
    if (this.gl) this.prepare();
    else this.element.replaceChildren(h("p", { className: "problem" }, "This browser has no WebGL: the robot cannot be drawn. All else works."));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  prepare() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.at = Object.fromEntries(["body", "view", "scale", "paint", "lit"].map((name) => [name, gl.getUniformLocation(program, name)]));
    this.in = Object.fromEntries(["place", "normal"].map((name) => [name, gl.getAttribLocation(program, name)]));
    this.round = this.mesh(cylinder());
    this.sphere = this.mesh(ball());
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  }

  mesh({ places, normals }) {
    const gl = this.gl;
    const [place, normal] = [places, normals].map((list) => {
      const buffer = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(list), gl.STATIC_DRAW);
      return buffer;
    });
    return { place, normal, count: places.length / 3 };
  }

  show(data, frames) {
    this.data = data;
    this.frames = frames;
    this.points = data.carriers.map((_, k) => data.points.slice(3 * k, 3 * k + 3));
    if (!this.gl) return;
    const faces = {};
    for (const [kind, body, list] of data.shapes) {
      if (kind !== "face") continue;
      const into = (faces[body] ||= { places: [], normals: [] }), corners = list.map((k) => this.points[k]);
      const n = unit(cross(minus(corners[1], corners[0]), minus(corners[2], corners[0])));
      for (let k = 1; k + 1 < corners.length; k++) for (const p of [corners[0], corners[k], corners[k + 1]]) { into.places.push(...p); into.normals.push(...n); }
    }
    this.faces = Object.entries(faces).map(([body, list]) => ({ body: +body, ...this.mesh(list) }));
    this.draw();
  }

  // room for the robot in all of several places
  fit(list) {
    const now = this.frames, all = [];
    for (const frames of list) { this.frames = frames; this.points.forEach((_, k) => { if (k % 3 === 0) all.push(this.world(k)); }); }
    this.frames = now;
    const axes = this.axes(), ends = axes.map((axis) => {
      const along = all.map((p) => dot(axis, p));
      return [Math.min(...along), Math.max(...along)];
    });
    this.data.middle = [0, 1, 2].map((k) => axes.reduce((sum, axis, i) => sum + axis[k] * (ends[i][0] + ends[i][1]) / 2, 0));
    this.data.reach = 0.53 * Math.max(1e-6, ends[0][1] - ends[0][0], ends[1][1] - ends[1][0]);
    this.draw();
  }

  move(frames) { this.frames = frames; this.draw(); }
  colours(levels) { this.levels = levels; this.draw(); }

  listen() {
    let last = null, moved = 0;
    const turn = (a, b) => { this.turn += a; this.tilt = Math.max(-1.5, Math.min(1.5, this.tilt + b)); this.draw(); };
    this.canvas.addEventListener("pointerdown", (event) => { last = [event.clientX, event.clientY]; moved = 0; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
      moved += Math.abs(dx) + Math.abs(dy);
      last = [event.clientX, event.clientY];
      turn(-dx / 140, dy / 140);
    });
    this.canvas.addEventListener("pointerup", (event) => { if (last && moved < 5) this.pick(event); last = null; });
    this.canvas.addEventListener("pointercancel", () => { last = null; });
    this.canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== this.canvas && !event.ctrlKey) return; // the page scrolls unless the scene was chosen
      event.preventDefault();
      this.zoom = Math.max(0.4, Math.min(6, this.zoom * Math.exp(-event.deltaY / 600)));
      this.draw();
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0.12, 0], ArrowRight: [-0.12, 0], ArrowUp: [0, 0.12], ArrowDown: [0, -0.12] }[event.key];
      if (step) { event.preventDefault(); turn(...step); }
      if (event.key === "+" || event.key === "-") { this.zoom *= event.key === "+" ? 1.15 : 1 / 1.15; this.draw(); }
    });
  }

  world(k) {
    const o = 12 * this.data.carriers[k], m = this.frames, p = this.points[k];
    return [0, 4, 8].map((r) => m[o + r] * p[0] + m[o + r + 1] * p[1] + m[o + r + 2] * p[2] + m[o + r + 3]);
  }

  // right, up, and towards the eye
  axes() {
    const c = Math.cos(this.turn), s = Math.sin(this.turn), ct = Math.cos(this.tilt), st = Math.sin(this.tilt);
    return [[-s, c, 0], [-st * c, -st * s, ct], [ct * c, ct * s, st]];
  }

  camera(wide, high) {
    const axes = this.axes(), middle = this.data.middle;
    const scale = (0.95 * this.zoom) / (this.data.reach || this.data.radius), narrow = Math.min(wide, high);
    const factors = [(scale * narrow) / wide, (scale * narrow) / high, -scale / this.zoom];
    return axes.map((axis, k) => [...axis.map((v) => v * factors[k]), -factors[k] * dot(axis, middle)]);
  }

  draw() {
    if (!this.gl || !this.data || !this.frames) return;
    const gl = this.gl, ratio = window.devicePixelRatio || 1, wide = this.element.clientWidth, high = this.element.clientHeight;
    if (!wide) return;
    for (const one of [this.canvas, this.marks]) {
      if (one.width !== Math.round(wide * ratio) || one.height !== Math.round(high * ratio)) { one.width = Math.round(wide * ratio); one.height = Math.round(high * ratio); }
    }
    this.rows = this.camera(wide, high);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...rgb(colour("--faint")), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const [x, y, z] = this.rows;
    gl.uniformMatrix4fv(this.at.view, false, [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, x[3], y[3], z[3], 1]);
    this.parts((body) => rgb(body >= 0 && body === this.chosen ? colour("--orange") : colour(LEVELS[this.levels[this.data.bodies[body + 1]]] || "--none")), 1);
    this.names(wide, high, ratio);
    this.drawn += 1;
    this.element.dataset.drawn = this.drawn;
  }

  parts(paint, lit) {
    const { radius } = this.data, thin = 0.006 * radius;
    const rings = {};
    for (const [kind, body, list] of this.data.shapes) {
      const places = kind === "face" ? null : list.map((k) => this.world(k));
      if (kind === "link") places.slice(1).forEach((p, k) => { this.tube(places[k], p, 0.024 * radius, paint(body), lit); this.blob(p, 0.024 * radius, paint(body), lit); });
      else if (kind === "ring") (rings[body] ||= []).push(places);
      else if (kind === "box") places.forEach((p, k) => this.tube(p, places[(k + 1) % places.length], thin, paint(body), lit));
      else if (kind === "axis" && this.shows.axes && lit) this.tube(places[0], places[1], 0.7 * thin, rgb(colour("--orange")), 0);
      else if (kind === "ground" && lit) { const c = mean(places), below = [c[0], c[1], c[2] - 0.01 * radius]; this.tube(below, c, size(minus(places[0], c)), rgb(colour("--line")), 1); }
    }
    for (const [body, pair] of Object.entries(rings)) {
      const [a, b] = [pair[0], pair[pair.length - 1]].map(mean);
      this.tube(a, b, size(minus(pair[0][0], a)), paint(+body), lit);
    }
    for (const one of this.faces) this.put(one, this.matrix(one.body + 1), [1, 1, 1], paint(one.body), lit);
    if (!lit) return;
    if (this.shows.frames) this.data.bodies.forEach((_, body) => {
      const o = 12 * body, m = this.frames, here = [m[o + 3], m[o + 7], m[o + 11]];
      ["--c1", "--c2", "--c0"].forEach((name, k) => this.tube(here, here.map((v, r) => v + 0.14 * radius * m[o + 4 * r + k]), thin, rgb(colour(name)), 0));
    });
    const down = unit(this.data.gravity), [right, up] = this.axes(), far = (this.data.reach || radius) / this.zoom;
    const from = this.data.middle.map((v, k) => v + (0.86 * up[k] - 0.82 * right[k]) * far);
    const tip = from.map((v, k) => v + 0.3 * far * down[k]), neck = from.map((v, k) => v + 0.2 * far * down[k]);
    this.tube(from, neck, thin, rgb(colour("--quiet")), 0);
    this.tube(neck, tip, 3 * thin, rgb(colour("--quiet")), 0);
    this.arrow = from;
  }

  matrix(body) {
    const o = 12 * body, m = this.frames;
    return [m[o], m[o + 4], m[o + 8], 0, m[o + 1], m[o + 5], m[o + 9], 0, m[o + 2], m[o + 6], m[o + 10], 0, m[o + 3], m[o + 7], m[o + 11], 1];
  }

  tube(a, b, thick, paint, lit) {
    const along = minus(b, a), length = size(along);
    if (length < 1e-9) return;
    const z = unit(along), x = unit(cross(Math.abs(z[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0], z)), y = cross(z, x);
    this.put(this.round, [...x, 0, ...y, 0, ...z, 0, ...a, 1], [thick, thick, length], paint, lit);
  }

  blob(p, thick, paint, lit) { this.put(this.sphere, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, ...p, 1], [thick, thick, thick], paint, lit); }

  put(mesh, matrix, scale, paint, lit) {
    const gl = this.gl;
    gl.uniformMatrix4fv(this.at.body, false, matrix);
    gl.uniform3fv(this.at.scale, scale);
    gl.uniform4fv(this.at.paint, [...paint, 1]);
    gl.uniform1f(this.at.lit, lit);
    for (const name of ["place", "normal"]) {
      gl.bindBuffer(gl.ARRAY_BUFFER, mesh[name]);
      gl.enableVertexAttribArray(this.in[name]);
      gl.vertexAttribPointer(this.in[name], 3, gl.FLOAT, false, 0, 0);
    }
    gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
  }

  // which body lies under the pointer: the scene once more, each body in a colour of its own
  pick(event) {
    if (!this.gl || !this.data) return;
    const gl = this.gl, box = this.canvas.getBoundingClientRect(), ratio = this.canvas.width / box.width;
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.parts((body) => [(body + 2) / 255, 0, 0], 0);
    const pixel = new Uint8Array(4);
    gl.readPixels(Math.round((event.clientX - box.left) * ratio), this.canvas.height - Math.round((event.clientY - box.top) * ratio), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    this.choose(pixel[0] - 2);
  }

  choose(body) { this.chosen = body < 0 ? -1 : body; this.draw(); this.onpick(this.chosen); }

  names(wide, high, ratio) {
    const paper = this.marks.getContext("2d");
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    paper.clearRect(0, 0, wide, high);
    paper.font = "600 12px system-ui, sans-serif";
    paper.textAlign = "center";
    const write = (text, p) => {
      const [u, v] = this.rows.map((row) => row[0] * p[0] + row[1] * p[1] + row[2] * p[2] + row[3]);
      paper.lineWidth = 3;
      paper.strokeStyle = colour("--faint");
      paper.fillStyle = colour("--ink");
      paper.strokeText(text, (wide * (1 + u)) / 2, (high * (1 - v)) / 2 + 4);
      paper.fillText(text, (wide * (1 + u)) / 2, (high * (1 - v)) / 2 + 4);
    };
    if (this.shows.names) this.data.anchors.forEach(([, place], k) => write(String(k + 1), this.world(place)));
    if (this.arrow) write("gravity", this.arrow);
  }
}
