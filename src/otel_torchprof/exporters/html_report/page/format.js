// Numbers and elements. Text from the recording reaches the page by textContent alone.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// An element with properties, attributes (`aria-...`, `data-...`, `role`) and children.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

// A name: what is written from right to left stays within it.
const nameOf = (text, tag = "bdi") => make(tag, { textContent: text });

function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${rounded(ns / 1e3)} µs`;
  if (size < 1e9) return `${rounded(ns / 1e6)} ms`;
  if (size < 6e11) return `${rounded(ns / 1e9)} s`;
  return `${rounded(ns / 6e10)} min`;
}

// Three digits that count.
function rounded(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}

const count = (value) => value.toLocaleString("en-US");
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

function percent(part, whole) {
  if (!whole) return "0 %";
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value.toFixed(1)} %`;
}

const sign = (value) => (value < 0 ? "−" : "+");
const signedDuration = (ns) => `${sign(ns)}${duration(Math.abs(ns))}`;
const signedPercent = (part, whole) => `${sign(part)}${percent(Math.abs(part), whole)}`;

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit ? rounded(size) : size} ${units[unit]}`;
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const kindName = (kind) => data.kind_names[kind];

// Rows of the table of operators etc. by the search box; whoever shows names listens.
const search = { text: "", listeners: [] };
const matches = (name) => search.text !== "" && name.toLowerCase().includes(search.text);
