// Elements, requests, and words for numbers. Text is text: nothing here reads HTML.

export const h = (name, properties = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list" && !key.includes("-")) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

export const windowName = () => {
  let name = sessionStorage.getItem("window");
  if (!name) {
    name = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("window", name);
  }
  return name;
};

export const session = { window: windowName(), writes: false };

const failed = async (response) => new Error((await response.text()) || `HTTP ${response.status}`);

// what the desk knows: {value, data}; data is an ArrayBuffer behind the JSON
export const ask = async (task, given = {}, signal = undefined) => {
  const query = new URLSearchParams(Object.entries(given).map(([key, value]) => [key, JSON.stringify(value)]));
  const response = await fetch(`/ask/${task}?${query}`, { signal });
  if (!response.ok) throw await failed(response);
  const buffer = await response.arrayBuffer(), view = new DataView(buffer);
  const size = view.getUint32(0), start = 12;
  return { value: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, start, size))), data: buffer.slice(start + size) };
};

export const post = async (path, content = {}) => {
  const response = await fetch(path, { method: "POST", body: JSON.stringify({ window: session.window, ...content }) });
  if (!response.ok) throw await failed(response);
  return response.text();
};

export const act = (name, given) => post("/act", { name, given });

export const upload = async (kind, file) => {
  const query = new URLSearchParams({ window: session.window, kind, name: file.name });
  const response = await fetch(`/upload?${query}`, { method: "PUT", body: file });
  if (!response.ok) throw await failed(response);
  return response.text();
};

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const jointColour = (k) => colour(`--c${k % 7}`);
export const minus = (text) => String(text).replace(/-/g, "−");
export const short = (value, digits = 3) => (value === null || value === undefined ? "–" : minus(Number(value.toPrecision(digits))));
export const percent = (value) => (value === null || value === undefined ? "–" : `${short(100 * value, 2)} %`);

export const table = (headings, rows, right = []) => h("div", { className: "wide" },
  h("table", {},
    h("thead", {}, h("tr", {}, headings.map((text, k) => h("th", { scope: "col", className: right.includes(k) ? "num" : "" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", { className: row.kind || "" },
      (row.cells || row).map((cell, k) => (k ? h("td", { className: right.includes(k) ? "num" : "" }, cell) : h("th", { scope: "row" }, cell))))))));

export const notices = (list) => h("ul", { className: "notices" }, list.map((one) => (
  h("li", { className: one.level }, h("p", {}, one.text), one.advice ? h("p", { className: "quiet" }, one.advice) : null))));

const SIGNS = { good: "✓", caution: "!", bad: "✕" };
export const verdict = (level, headline, ...lines) => h("div", { className: `verdict ${level}` },
  h("span", { className: "sign", "aria-hidden": "true" }, SIGNS[level] || "?"),
  h("div", {}, h("p", { className: "headline" }, headline), lines));

// a place to drop files on, with a button for those who do not drag
export const drop = (words, several, take) => {
  const input = h("input", { type: "file", multiple: several, hidden: true, onchange: () => { take([...input.files]); input.value = ""; } });
  const box = h("div", { className: "drop row" }, h("button", { type: "button", disabled: !session.writes, onclick: () => input.click() }, "Choose file…"), h("span", { className: "quiet" }, words), input);
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    if (session.writes) take([...event.dataTransfer.files].slice(0, several ? undefined : 1));
  });
  return box;
};
