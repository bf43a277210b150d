// What the chosen step did, and what differs in it from a median step.

const MAX_CHANGES = 8;
const UNTRACED = "untraced code";
const STEP_MARK = "ProfilerStep"; // what is its own time alone is among the waits

function againstMedian(ns) {
  const { median_ns: median } = data.steps;
  return ns < 2 * median ? `${signedPercent(ns - median, median)} against the median` : `${(ns / median).toFixed(1)} times the median`;
}

const howLong = (step) => {
  const ns = data.steps.duration_ns[step];
  return data.steps.median_ns ? `${duration(ns)}, ${againstMedian(ns)}` : duration(ns);
};

// Rows of a table with what a step has of them and what is usual.
function rowsOfStep(rows, entries, usual) {
  return entries.map(([index, calls, ns]) => ({
    ...rows[index],
    calls,
    ns,
    usual: usual.time_ns[index],
    usual_calls: usual.calls[index],
    change: ns - usual.time_ns[index],
  }));
}

const opRowsOf = (step) => rowsOfStep(ops, data.steps.ops[step], data.steps.usual_ops);
const workRowsOf = (step) => rowsOfStep(work, data.steps.work[step], data.steps.usual_work);
const byChange = (one, two) => Math.abs(two.change) - Math.abs(one.change);

function waitRowsOf(step) {
  return data.steps.waits
    .map(({ name, time_ns: times, median_ns: usual }) => ({ name, kind: "wait", ns: times[step], usual, change: times[step] - usual }))
    .filter((row) => row.ns || row.usual);
}

const opChangesIn = (step) => opRowsOf(step).filter((row) => row.change && row.name !== STEP_MARK);

// All that took more or less time than usual, the greatest difference first.
const changesIn = (step) => (isIncomplete(step) ? [] : [...waitRowsOf(step), ...opChangesIn(step), ...workRowsOf(step)].filter((row) => row.change).sort(byChange));
// What is missing of it may be what took its time.
const isIncomplete = (step) => lacking(step) === "incomplete";

function stepPanel(step) {
  const steps = data.steps;
  const ns = steps.duration_ns[step];
  const pairs = [
    ["lasted", duration(ns)],
    ["began at", duration(steps.start_ns[step])],
    ["events", count(steps.events[step])],
  ];
  const compares = steps.counted > 1 && steps.median_ns > 0;
  if (compares) pairs.splice(1, 0, [`median ${duration(steps.median_ns)}`, againstMedian(ns)]);
  if (steps.phase[step] !== "unknown") pairs.push(["phase", steps.phase[step]]);
  if (data.devices.length) pairs.push(["device busy", percent(steps.device_ns[step], ns)]);
  if (steps.stands_for[step] > 1) pairs.push(["slowest of", plural(steps.stands_for[step], "step")]);
  if (lacking(step)) pairs.push([lacking(step), LACKS[lacking(step)]]);
  const list = make("dl");
  fill(list, pairs);
  const clear = make("button", { type: "button", className: "quiet", textContent: "Back to all steps" });
  clear.addEventListener("click", () => {
    chooseStep(null);
    byId("step-bars").querySelector('[tabindex="0"]').focus();
  });
  const all = make("a", { href: "#operators", textContent: `All operators in ${stepName(step)}` });
  return [make("h3", { textContent: begun(stepName(step)) }), list, ...stepChanges(step, compares), make("p", { className: "actions" }, clear, all)];
}

// Of a step that nothing is compared with, what it waited for.
function stepChanges(step, compares) {
  if (isIncomplete(step)) {
    return [make("p", { className: "hint", textContent: "As events in it were dropped or cut off, nothing is said of what took its time." })];
  }
  const parts = [["Waits and untraced code", waitRowsOf(step)]];
  if (compares) {
    parts.push(["Differs most on threads, in self time", opChangesIn(step)]);
    parts.push(["Differs most on devices", workRowsOf(step).filter((row) => row.change)]);
  }
  const tables = parts.filter(([, rows]) => rows.length).map(([title, rows]) => changesTable(title, rows.sort(byChange).slice(0, MAX_CHANGES), compares));
  if (waitRowsOf(step).some((row) => row.name === UNTRACED)) {
    tables.splice(1, 0, make("p", { className: "hint", textContent: untracedHint() }));
  }
  return tables.length || !compares ? tables : [make("p", { className: "hint", textContent: "Nothing in it took another time than in a median step." })];
}

function untracedHint() {
  const what = "Untraced code ran, or waited, while the step's thread was in no event";
  return data.facts.kinds.python ? `${what}.` : `${what}; recording Python calls (with_stack=True) names it.`;
}

function changesTable(title, rows, compares) {
  const comparison = [
    ["median step", (row) => duration(row.usual)],
    ["difference", (row) => (row.change ? signedDuration(row.change) : "none")],
  ];
  const columns = [
    ["this step", (row) => duration(row.ns)],
    ...(compares ? comparison : []),
    ["calls", callsText],
  ].filter(([label]) => label !== "calls" || rows[0].calls !== undefined);
  const lines = rows.map((row) => {
    const cells = columns.map(([label, text]) => make("td", { "data-label": label }, make("span", { textContent: text(row) })));
    return make("tr", { className: compares && row.change > 0 ? "more-time" : "" }, make("td", { className: "name" }, ...nameCell(row)), ...cells);
  });
  const headings = [title, ...columns.map(([label]) => label)].map((label, place) => make("th", { scope: "col", className: place ? "" : "name", textContent: label }));
  const table = make("table", { "aria-label": title }, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...lines));
  return make("div", { className: "scroll changes", tabIndex: -1 }, table);
}

const callsText = (row) => count(row.calls) + (row.calls === row.usual_calls ? "" : ` (median ${count(row.usual_calls)})`);
