// The modules of the model as a tree that opens and closes: forward, backward and device time of each.

const OPEN_ROWS = 40;

const modules = (() => {
  const { left_out: leftOut, ...columns } = data.modules;
  const keys = Object.keys(columns);
  const rows = columns.name.map((_, index) => ({ index, open: false, children: [], ...Object.fromEntries(keys.map((key) => [key, columns[key][index]])) }));
  for (const row of rows) if (row.parent >= 0) rows[row.parent].children.push(row);
  for (const row of rows) row.cost_ns = row.forward_ns + row.backward_ns;
  return { rows, leftOut, roots: rows.filter((row) => row.parent < 0) };
})();
const modulesCost = modules.roots.reduce((sum, row) => sum + row.cost_ns, 0);

const moduleColumns = [
  ["calls", (row) => count(row.calls)],
  ["forward", (row) => duration(row.forward_ns), "Time in its calls"],
  ["self", (row) => duration(row.self_forward_ns), "Forward without the modules it called"],
  ["backward", (row) => duration(row.backward_ns), "Time of the backward ops of its forward ops, wherever they ran"],
  ["device", (row) => (row.device_ns ? duration(row.device_ns) : "–"), "Kernels and copies that its forward and backward launched", "device_ns"],
  ["allocated", (row) => bytes(row.allocated_bytes), "By its forward", "allocated_bytes"],
  ["parameters", (row) => (row.parameters < 0 ? "–" : count(row.parameters)), "With all modules below it; a shared one counts once"],
].filter(([, , , key]) => !key || modules.rows.some((row) => row[key]));

function showModules() {
  if (!modules.rows.length) return;
  byId("modules").hidden = false;
  byId("modules-hint").textContent =
    `${plural(modules.rows.length + modules.leftOut, "module")} as called from each other; times include what is called within, and the backward.` +
    (modules.leftOut ? ` The ${count(modules.leftOut)} that cost least are left out.` : "");
  openFirst();
  search.listeners.push(drawModules);
  drawModules();
}

// Level by level, as long as the table stays short.
function openFirst() {
  let shown = modules.roots.length;
  for (let level = modules.roots; level.length; level = level.flatMap((row) => row.children)) {
    shown += level.reduce((sum, row) => sum + row.children.length, 0);
    if (shown > OPEN_ROWS) return;
    for (const row of level) row.open = true;
  }
}

function drawModules() {
  const found = foundModules();
  const lines = [];
  const visit = (row) => {
    if (found && !found.has(row)) return;
    lines.push(moduleLine(row, found !== null));
    if (row.open || found) row.children.forEach(visit);
  };
  modules.roots.forEach(visit);
  const headings = [["module"], ...moduleColumns, ["share", null, "Of forward and backward of all modules"]].map(([label, , title]) =>
    make("th", { scope: "col", className: label === "module" ? "name" : label, title: title ?? "", textContent: label }));
  const table = make("table", { role: "treegrid", "aria-label": "Modules" }, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...lines));
  const focused = document.activeElement?.dataset?.module;
  const place = byId("modules-table");
  place.replaceChildren(make("div", { className: "scroll", tabIndex: -1 }, table));
  if (!lines.length) place.append(make("p", { className: "empty", textContent: "No module here matches." }));
  if (focused) place.querySelector(`[data-module="${focused}"]`)?.focus();
}

// What the search box names, with all that calls it; null when it is empty.
function foundModules() {
  if (!search.text) return null;
  const found = new Set();
  for (const row of modules.rows) {
    if (!matches(row.path) && !matches(row.name)) continue;
    for (let at = row; at; at = modules.rows[at.parent]) found.add(at);
  }
  return found;
}

function moduleLine(row, isSearch) {
  const name = make("td", { className: "name" });
  name.style.setProperty("--depth", String(row.depth));
  const opens = row.children.length && !isSearch;
  const label = [nameOf(row.path || row.name), ...(row.path ? [" ", make("span", { className: "class" }, nameOf(row.name))] : [])];
  if (opens) {
    const button = make("button", { type: "button", className: "twig", "aria-expanded": String(row.open), "data-module": String(row.index) }, ...label);
    button.addEventListener("click", () => {
      row.open = !row.open;
      drawModules();
    });
    name.append(button);
  } else name.append(make("span", { className: "twig" }, ...label));
  const cells = moduleColumns.map(([heading, text]) => make("td", { className: heading, "data-label": heading }, make("span", { textContent: text(row) })));
  const part = make("td", { className: "share", "data-label": "share" }, share(modulesCost ? row.cost_ns / modulesCost : 0), make("span", { textContent: percent(row.cost_ns, modulesCost) }));
  return make("tr", { "aria-level": String(row.depth + 1), ...(row.children.length ? { "aria-expanded": String(row.open || isSearch) } : {}) }, name, ...cells, part);
}
