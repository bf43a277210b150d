// What ran on threads, and apart from it what ran on devices: of the whole recording, or of one step.

const ops = rowsOf(data.ops);
const opsSelf = ops.reduce((sum, row) => sum + row.self_ns, 0) + data.ops.other.self_ns;
for (const row of ops) row.mean_ns = row.calls ? row.total_ns / row.calls : 0;
const work = rowsOf(data.work);
const workTotal = work.reduce((sum, row) => sum + row.total_ns, 0) + data.work.other.self_ns;
for (const row of work) row.mean_ns = row.total_ns / row.calls;
const opsTables = {};

function showOps(step = null) {
  const name = step === null ? "" : ` in ${stepName(step)}`;
  byId("operators-title").textContent = `Operators${name}`;
  byId("threads-title").hidden = byId("work").hidden = !work.length;
  const threads = step === null ? opsOfAll() : opsOfStep(step);
  showOpsTable("operators", { label: `Operators by name${name}`, ...threads });
  if (!work.length) return;
  const devices = step === null ? workOfAll() : workOfStep(step);
  showOpsTable("work", { label: `Work on devices by name${name}`, ...devices });
}

function showOpsTable(id, options) {
  byId(`${id}-hint`).textContent = options.hint;
  if (opsTables[id]) opsTables[id].set(options);
  else opsTables[id] = new DataTable(byId(`${id}-table`), options);
}

const callsColumn = column("calls", "calls", (row) => count(row.calls));

function opsOfAll() {
  const columns = [
    nameColumn,
    callsColumn,
    timeColumn("total_ns", "total", "A call inside one of its own name counts once"),
    timeColumn("self_ns", "self", "Time that nothing it called covers"),
    timeColumn("mean_ns", "mean", "Total divided by calls"),
  ];
  if (ops.some((row) => row.device_ns)) {
    const text = (row) => (row.device_ns ? duration(row.device_ns) : "–");
    columns.push(column("device_ns", "launched", text, { title: "Time of the work on devices that it launched itself, which is not part of its own" }));
  }
  columns.push(shareColumn("self_ns", opsSelf));
  const left = data.marks ? ` ${plural(data.marks, "mark")} over work on devices, where scopes and waits were there, ${data.marks === 1 ? "is" : "are"} in neither table.` : "";
  return {
    hint: `${plural(ops.length + data.ops.other.names, "name")}; share is of ${duration(opsSelf)} of self time on all threads.${left}`,
    columns,
    rows: ops,
    other: otherLine(data.ops.other),
    sort: { key: "self_ns", down: true },
  };
}

function workOfAll() {
  return {
    hint: `Kernels, copies and fills by short name; share is of their ${duration(workTotal)}.`,
    columns: [
      nameColumn,
      callsColumn,
      timeColumn("total_ns", "total", "What ran side by side counts in full"),
      timeColumn("mean_ns", "mean"),
      timeColumn("longest_ns", "longest"),
      shareColumn("total_ns", workTotal),
    ],
    rows: work,
    other: otherLine(data.work.other),
    sort: { key: "total_ns", down: true },
  };
}

function opsOfStep(step) {
  const whole = data.steps.self_ns[step];
  const lasted = data.steps.duration_ns[step];
  const rows = opRowsOf(step);
  const rest = whole - rows.reduce((sum, row) => sum + row.ns, 0);
  return {
    hint: `${plural(data.steps.events[step], "event")} began in this step, on whatever thread; ${duration(whole)} of self time. Share is of the ${duration(lasted)} that the step lasted.`,
    ...ofStep(rows, timeColumn("ns", "self", "Time that nothing it called covers"), lasted, step),
    other: rest > 0 ? `All other names: ${duration(rest)}` : "",
  };
}

function workOfStep(step) {
  const rows = workRowsOf(step);
  const whole = rows.reduce((sum, row) => sum + row.ns, 0);
  return { hint: "What began in this step: the names with most time, and those that differ most.", ...ofStep(rows, timeColumn("ns", "total"), whole, step) };
}

function ofStep(rows, time, whole, step) {
  const compares = data.steps.counted > 1 && !isIncomplete(step);
  const comparison = [
    timeColumn("usual", "median", "The same in a median step"),
    column("change", "difference", (row) => signedDuration(row.change), { value: (row) => row.change, title: "Against the median step" }),
  ];
  return {
    columns: [
      nameColumn,
      column("calls", "calls", compares ? callsText : callsColumn.text),
      time,
      ...(compares ? comparison : []),
      shareColumn("ns", whole),
    ],
    rows,
    sort: { key: compares ? "change" : "ns", down: true },
  };
}
