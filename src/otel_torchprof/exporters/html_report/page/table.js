// A table that sorts by its headings, follows the search box and shows its first rows until asked for all.

const FIRST_ROWS = 20;
const LONG_NAME = 60;

// `columns`: {label, key, text(row), value(row), share}. `rows`: objects with a `name`. `other`: a last line.
class DataTable {
  constructor(place, options) {
    this.place = place;
    this.all = false;
    this.set(options);
    search.listeners.push(() => this.draw());
  }

  set({ label, columns, rows, other = "", sort }) {
    Object.assign(this, { label, columns, rows, other });
    if (!this.sort || !columns.some((column) => column.key === this.sort.key)) this.sort = sort;
    this.draw();
  }

  draw() {
    const found = search.text ? this.rows.filter((row) => matches(row.name)) : this.rows;
    const { key, down } = this.sort;
    const { value } = this.columns.find((column) => column.key === key);
    const sorted = [...found].sort((one, two) => compare(value(one), value(two)) * (down ? -1 : 1));
    const shown = this.all ? sorted : sorted.slice(0, FIRST_ROWS);
    const body = make("tbody", {}, ...shown.map((row) => this.row(row)));
    const table = make("table", { "aria-label": this.label }, this.headings(), body);
    const parts = [make("div", { className: "scroll", tabIndex: -1 }, table)];
    if (!found.length) parts.push(make("p", { className: "empty", textContent: this.rows.length ? "No name here matches." : "Nothing here." }));
    if (sorted.length > FIRST_ROWS) parts.push(this.more(sorted.length));
    if (this.other) parts.push(make("p", { className: "hint other", textContent: this.other }));
    const focused = document.activeElement?.dataset?.key;
    const held = this.place.contains(document.activeElement);
    this.place.replaceChildren(...parts);
    if (held && focused) this.place.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  headings() {
    const cells = this.columns.map((column) => {
      const sorted = this.sort.key === column.key;
      const button = make("button", { type: "button", textContent: column.label, "data-key": column.key });
      button.title = column.title ?? "";
      button.addEventListener("click", () => {
        this.sort = { key: column.key, down: sorted ? !this.sort.down : column.key !== "name" };
        this.draw();
      });
      const order = sorted ? (this.sort.down ? "descending" : "ascending") : "none";
      return make("th", { scope: "col", "aria-sort": order, className: column.key }, button);
    });
    return make("thead", {}, make("tr", {}, ...cells));
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const cell = make("td", { className: column.key, "data-label": column.label });
      if (column.key === "name") cell.append(...nameCell(row));
      else cell.append(make("span", { textContent: column.text(row) }));
      if (column.share) cell.prepend(share(column.value(row)));
      return cell;
    });
    return make("tr", {}, ...cells);
  }

  more(rows) {
    const text = this.all ? `Show only ${FIRST_ROWS}` : `Show all ${count(rows)}`;
    const button = make("button", { type: "button", className: "more", textContent: text, "data-key": "more" });
    button.setAttribute("aria-expanded", String(this.all));
    button.addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
    });
    return button;
  }
}

const compare = (one, two) => (one < two ? -1 : one > two ? 1 : 0);

function nameCell(row) {
  const parts = [make("i", { className: `dot kind-${row.kind}`, title: row.kind })];
  if (row.name.length > LONG_NAME) parts.push(longName(row.name));
  else parts.push(nameOf(row.name));
  return parts;
}

// A name that is cut to two lines until asked for.
function longName(text) {
  const button = make("button", { type: "button", className: "long", "aria-expanded": "false" }, nameOf(text));
  button.addEventListener("click", () => {
    button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") === "false"));
  });
  return button;
}

function share(value) {
  const bar = make("i", { className: "share", "aria-hidden": "true" });
  bar.style.setProperty("--part", String(clamp(value, 0, 1)));
  return bar;
}

// The rows of columns as the data has them.
function rowsOf(columns) {
  return columns.name.map((name, index) => {
    const row = { index, name: data.names[name] };
    for (const key of Object.keys(columns)) {
      if (key !== "name" && key !== "other") row[key] = columns[key][index];
    }
    row.kind = kindName(row.kind);
    return row;
  });
}

const otherLine = (other) =>
  other.names ? `${plural(other.names, "further name")} with ${plural(other.calls, "call")} and ${duration(other.self_ns)} together` : "";

function column(key, label, text, more = {}) {
  return { key, label, text, value: (row) => row[key], ...more };
}
const timeColumn = (key, label, title) => column(key, label, (row) => duration(row[key]), { title });
const nameColumn = { key: "name", label: "name", value: (row) => row.name };

// The share of all time, as a bar and a number; by `key` of a row and the sum of it.
function shareColumn(key, whole) {
  return {
    key: "share",
    label: "share",
    share: true,
    value: (row) => (whole ? row[key] / whole : 0),
    text: (row) => percent(row[key], whole),
  };
}
