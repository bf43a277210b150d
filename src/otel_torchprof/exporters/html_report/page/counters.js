// What the processor and the kernel counted: by step, by thread, and over user spans.

const counterText = (unit, value) => (value === null ? "–" : unit === "ns" ? duration(value) : count(value));

function showCounters() {
  const counters = data.counters;
  if (!counters.names.length) return;
  byId("counters").hidden = false;
  const all = counters.names.map((name, index) => `${name} ${counterText(counters.units[index], counters.total[index])}`);
  const estimated = counters.names.filter((_, index) => counters.estimated[index]);
  const shared = estimated.length ? ` Scaled up, as they counted for a part of the time only: ${estimated.join(", ")}.` : "";
  byId("counters-hint").textContent = `On all threads: ${all.join(", ")}.${shared}`;
  showCounterTable("counters-steps", "step", "Counters by step, on all threads", counters.steps);
  showCounterTable("counters-threads", "thread", "Counters by thread", counters.threads);
  const calls = column("calls", "calls", (row) => count(row.calls));
  showCounterTable("counters-spans", "span", "Counters over spans, each on its thread", counters.spans, [calls]);
}

function showCounterTable(id, label, title, table, more = []) {
  if (!table.name.length) return;
  byId(id).hidden = false;
  const rows = table.name.map((name, index) => {
    const row = { name, kind: label === "span" ? "user" : label, order: index, calls: table.calls?.[index] };
    table.values[index].forEach((value, counter) => (row[`counter-${counter}`] = value));
    return row;
  });
  const counterColumns = data.counters.names.map((name, index) => {
    const key = `counter-${index}`;
    const text = (row) => counterText(data.counters.units[index], row[key]);
    return column(key, name, text, { value: (row) => row[key] ?? -1 });
  });
  const inOrder = { key: "name", label, value: (row) => (label === "step" ? row.order : row.name) };
  new DataTable(byId(`${id}-table`), {
    label: title,
    columns: [inOrder, ...more, ...counterColumns],
    rows,
    other: table.left_out ? `${plural(table.left_out, "further row")}` : "",
    sort: label === "step" ? { key: "name", down: false } : { key: "counter-0", down: true },
  });
}
