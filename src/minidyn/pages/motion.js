(() => {
  // ---------------------------------------------------------------- a robot in motion, and a line in every chart
  const stage = document.getElementById("stage");
  if (!stage) return;
  const { t, frames, digits, points, carriers, shapes, labels, solids, planes, radius, turn: turn0, tilt: tilt0 } =
    JSON.parse(document.getElementById("data").textContent).motion;
  const play = document.getElementById("play"), slider = document.getElementById("time");
  const clock = document.getElementById("clock"), speed = document.getElementById("speed");
  const capsules = document.getElementById("capsules");
  const cursors = [...document.querySelectorAll("line.now")];
  const duration = t[t.length - 1], context = stage.getContext("2d");
  const FLAT = { ground: 0 };
  let turn = turn0, tilt = tilt0, now = 0, playing = false, before = 0;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const mixed = (light, from, to) => {
    const parts = (c) => [1, 3, 5].map((k) => parseInt(c.slice(k, k + 2), 16));
    const a = parts(from), b = parts(to);
    return `rgb(${a.map((v, k) => Math.round(v + (b[k] - v) * light)).join(",")})`;
  };
  // where every body is: rows of 3 x 4 matrices, between two frames in a straight line
  const placements = () => {
    const share = (Math.min(Math.max(now, 0), duration) / duration) * (t.length - 1);
    const k = Math.min(Math.floor(share), t.length - 2), part = share - k;
    return frames[k].map((value, i) => (value + part * (frames[k + 1][i] - value)) / digits);
  };
  const put = (m, body, p) => {
    const o = 12 * body;
    return [0, 4, 8].map((r) => m[o + r] * p[0] + m[o + r + 1] * p[1] + m[o + r + 2] * p[2] + m[o + r + 3]);
  };
  const draw = () => {
    const ratio = window.devicePixelRatio || 1, wide = stage.clientWidth, high = stage.clientHeight;
    if (!wide) return;
    if (stage.width !== Math.round(wide * ratio) || stage.height !== Math.round(high * ratio)) {
      stage.width = Math.round(wide * ratio);
      stage.height = Math.round(high * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, high);
    context.lineJoin = context.lineCap = "round";
    const c = Math.cos(turn), s = Math.sin(turn), ct = Math.cos(tilt), st = Math.sin(tilt);
    const scale = (0.49 * Math.min(wide, high)) / radius, m = placements();
    const eye = ([x, y, z]) => [-s * x + c * y, -st * c * x - st * s * y + ct * z, ct * c * x + ct * s * y + st * z];
    const paper = (p) => [wide / 2 + scale * p[0], high / 2 - scale * p[1]];
    const seen = points.map((p, k) => eye(put(m, carriers[k], p)));
    const ink = colour("--ink"), blue = colour("--blue"), orange = colour("--orange"), line = colour("--line");
    const surface = colour("--surface"), pale = "#f4f6f8", dark = "#55606c";
    const trace = (list, closed) => {
      context.beginPath();
      list.forEach((p, k) => (k ? context.lineTo(...paper(p)) : context.moveTo(...paper(p))));
      if (closed) context.closePath();
    };
    const jobs = [];
    planes.forEach((corners) => {
      const list = corners.map(eye);
      context.globalAlpha = 0.18;
      context.fillStyle = orange;
      trace(list, true);
      context.fill();
      context.globalAlpha = 1;
    });
    shapes.forEach(([kind, places, closed]) => {
      const list = places.map((k) => seen[k]);
      const depth = kind in FLAT ? -Infinity : list.reduce((sum, p) => sum + p[2], 0) / list.length;
      jobs.push([depth + (kind === "ring" || kind === "box" ? 1e-3 : 0), () => {
        trace(list, closed);
        if (kind === "face") {
          const [p, q, r] = list, a = q.map((v, k) => v - p[k]), b = r.map((v, k) => v - p[k]);
          const n = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
          const size = Math.hypot(...n) || 1, lit = Math.abs(0.25 * n[0] + 0.45 * n[1] + 0.85 * n[2]) / size;
          context.fillStyle = context.strokeStyle = mixed(0.2 + 0.65 * Math.min(lit, 1), dark, pale);
          context.lineWidth = 0.6;
          context.fill();
          context.stroke();
        } else if (kind === "ground") {
          context.fillStyle = line;
          context.fill();
        } else if (kind === "link") {
          context.strokeStyle = mixed(0.2, ink, surface);
          context.lineWidth = Math.max(3, 0.014 * wide);
          context.stroke();
        } else if (kind === "axis") {
          context.setLineDash([6, 3]);
          context.strokeStyle = orange;
          context.lineWidth = 1.2;
          context.stroke();
          context.setLineDash([]);
        } else {
          context.fillStyle = surface;
          context.strokeStyle = blue;
          context.lineWidth = 2;
          context.fill();
          context.stroke();
        }
      }]);
    });
    solids.filter((one) => one.obstacle || (capsules && capsules.checked)).forEach((one) => {
      const ends = one.ends.map((p) => eye(put(m, one.carrier, p)));
      jobs.push([(ends[0][2] + ends[1][2]) / 2, () => {
        trace(ends, false);
        context.globalAlpha = one.obstacle ? 0.45 : 0.22;
        context.strokeStyle = one.obstacle ? orange : blue;
        context.lineWidth = 2 * one.radius * scale;
        context.stroke();
        context.globalAlpha = 1;
      }]);
    });
    jobs.sort((a, b) => a[0] - b[0]).forEach(([, paint]) => paint());
    context.font = "600 11.5px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    labels.forEach(([name, k]) => {
      const [x, y] = paper(seen[k]);
      context.beginPath();
      context.arc(x, y, 9, 0, 2 * Math.PI);
      context.fillStyle = surface;
      context.strokeStyle = colour("--quiet");
      context.lineWidth = 1;
      context.fill();
      context.stroke();
      context.fillStyle = ink;
      context.fillText(String(name), x, y + 0.5);
    });
  };
  const show = () => {
    slider.value = String(now);
    clock.textContent = `${now.toFixed(2)} s`;
    const share = now / duration;
    cursors.forEach((one) => one.setAttribute("transform", `translate(${(share * one.dataset.span).toFixed(1)},0)`));
    draw();
  };
  const step = (stamp) => {
    if (!playing) return;
    now += ((stamp - before) / 1000) * Number(speed.value);
    before = stamp;
    if (now >= duration) { now = duration; stop(); }
    show();
    if (playing) requestAnimationFrame(step);
  };
  const stop = () => { playing = false; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (playing) { stop(); return; }
    if (now >= duration) now = 0;
    playing = true;
    play.textContent = "Pause";
    requestAnimationFrame((stamp) => { before = stamp; step(stamp); });
  });
  slider.addEventListener("input", () => { now = Number(slider.value); show(); });
  if (capsules) capsules.addEventListener("change", draw);
  const look = (a, b) => { turn += a; tilt = Math.max(-0.2, Math.min(1.45, tilt + b)); draw(); };
  let last = null;
  stage.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!last) return;
    look((last[0] - event.clientX) / 120, (event.clientY - last[1]) / 120);
    last = [event.clientX, event.clientY];
  });
  ["pointerup", "pointercancel"].forEach((name) => stage.addEventListener(name, () => { last = null; }));
  const KEYS = { ArrowLeft: [0.15, 0], ArrowRight: [-0.15, 0], ArrowUp: [0, 0.12], ArrowDown: [0, -0.12] };
  stage.addEventListener("keydown", (event) => {
    if (KEYS[event.key]) { event.preventDefault(); look(...KEYS[event.key]); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.getElementById("theme").addEventListener("click", draw);
  new ResizeObserver(draw).observe(stage);
  addEventListener("beforeprint", draw);
  show();
})();
