// Devices and lanes: when they were busy, and with what.

function showActivity() {
  const { lanes, left_out: leftOut } = data.activity;
  if (!lanes.length) return;
  byId("activity").hidden = false;
  const whole = data.facts.duration_ns;
  byId("activity-hint").textContent =
    `When threads were inside an event and streams had work, over ${duration(whole)}.` +
    (leftOut ? ` ${plural(leftOut, "less busy line")} left out.` : "");
  for (const lane of lanes) {
    const canvas = make("canvas", { height: 1, width: lane.percent.length, "aria-hidden": "true" });
    canvas.dataset.stream = String(lane.stream);
    byId("lanes").append(make("div", { role: "listitem", className: "lane" },
      make("p", {}, nameOf(lane.name), make("span", { textContent: `${percent(lane.busy_ns, whole)} busy, ${plural(lane.events, "event")}` })),
      make("div", { className: "strip" }, canvas, make("i", { className: "window", hidden: true }))));
  }
  drawLanes();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawLanes);
}

function drawLanes() {
  const style = getComputedStyle(document.documentElement);
  [...byId("lanes").querySelectorAll("canvas")].forEach((canvas, index) => {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, 1);
    context.fillStyle = style.getPropertyValue(canvas.dataset.stream === "true" ? "--device" : "--accent");
    data.activity.lanes[index].percent.forEach((percent, bucket) => {
      context.globalAlpha = percent ? 0.15 + 0.85 * (percent / 100) : 0;
      context.fillRect(bucket, 0, 1, 1);
    });
  });
}

// Shows on the lanes where a step lies.
function markStep(step) {
  const whole = data.facts.duration_ns;
  for (const mark of byId("lanes").querySelectorAll(".window")) {
    mark.hidden = step === null || !whole;
    if (mark.hidden) continue;
    mark.style.left = `${(100 * data.steps.start_ns[step]) / whole}%`;
    mark.style.width = `${(100 * data.steps.duration_ns[step]) / whole}%`;
  }
}

function showDevices() {
  if (!data.devices.length) return;
  byId("device").hidden = false;
  for (const device of data.devices) byId("devices").append(deviceCard(device));
  showKernels();
  showCopies();
  showBlocking();
}

function deviceCard(device) {
  const span = device.span_ns;
  const both = device.kernel_ns + device.copy_ns - device.busy_ns;
  const parts = [
    ["kernels", device.kernel_ns - both],
    ["kernels and copies at once", both],
    ["copies", device.copy_ns - both],
    ["idle", device.idle_ns],
  ].filter(([, ns]) => ns > 0);
  const bar = make("div", { className: "split", role: "img", "aria-label": parts.map(([label, ns]) => `${label} ${percent(ns, span)}`).join(", ") });
  const legend = make("ul", { className: "legend" });
  for (const [label, ns] of parts) {
    const kind = label.replaceAll(" ", "-");
    const part = make("i", { className: `part-${kind}` });
    part.style.flexGrow = String(ns);
    bar.append(part);
    legend.append(make("li", {}, make("i", { className: `dot part-${kind}` }), `${label} ${duration(ns)} (${percent(ns, span)})`));
  }
  const title = device.number < 0 ? "Device" : `Device ${device.number}`;
  const card = make("div", { className: "card" }, make("h3", {}, title, device.model ? " · " : "", nameOf(device.model)), bar, legend);
  card.append(make("p", {
    className: "hint",
    textContent: `${plural(device.kernels, "kernel")} and ${plural(device.copies, "copy", "copies")} within ${duration(span)} from the first to the last; ${plural(device.gaps, "pause")}.`,
  }));
  if (device.launched_kernels) {
    card.append(make("p", {
      className: "hint",
      textContent: `${duration(device.launch_wait_ns)} (${percent(device.launch_wait_ns, span)}) idle with nothing launched; ` +
        `${count(device.late_kernels)} of ${plural(device.launched_kernels, "kernel")} launched when the device had run dry.`,
    }));
  }
  if (device.longest_gaps.length) card.append(pauses(device));
  return card;
}

function pauses(device) {
  const list = make("ol");
  for (const [at, length] of device.longest_gaps) list.append(make("li", { textContent: `${duration(length)}, ${duration(at)} after the start` }));
  return make("details", {}, make("summary", { textContent: "Longest pauses" }), list);
}

function showKernels() {
  const rows = rowsOf(data.kernels);
  for (const row of rows) row.mean_ns = row.total_ns / row.calls;
  const whole = rows.reduce((sum, row) => sum + row.total_ns, 0) + data.kernels.other.self_ns;
  new DataTable(byId("kernels-table"), {
    label: "Kernels by name",
    columns: [
      nameColumn,
      column("calls", "calls", (row) => count(row.calls)),
      timeColumn("total_ns", "total"),
      timeColumn("mean_ns", "mean"),
      timeColumn("longest_ns", "longest"),
      shareColumn("total_ns", whole),
    ],
    rows,
    other: otherLine(data.kernels.other),
    sort: { key: "total_ns", down: true },
  });
}

function showCopies() {
  const rows = rowsOf(data.copies);
  for (const row of rows) row.rate = row.total_ns && row.sized_calls === row.calls ? row.size_bytes / (row.total_ns / 1e9) : -1;
  const known = (row, text) => (row.sized_calls ? text : "not known");
  new DataTable(byId("copies-table"), {
    label: "Copies by kind",
    columns: [
      nameColumn,
      column("calls", "calls", (row) => count(row.calls)),
      column("size_bytes", "bytes", (row) => known(row, bytes(row.size_bytes))),
      timeColumn("total_ns", "total"),
      column("rate", "rate", (row) => (row.rate < 0 ? "–" : `${bytes(row.rate)}/s`)),
      timeColumn("longest_ns", "longest"),
    ],
    rows,
    other: otherLine(data.copies.other),
    sort: { key: "total_ns", down: true },
  });
}

function showBlocking() {
  const { rows, left_out: leftOut } = data.blocking;
  if (!rows.length) return;
  byId("blocking").hidden = false;
  new DataTable(byId("blocking-table"), {
    label: "Calls that waited for a device",
    columns: [
      nameColumn,
      column("caller", "called in", (row) => row.caller || "–"),
      column("calls", "calls", (row) => count(row.calls)),
      timeColumn("total_ns", "total"),
      timeColumn("longest_ns", "longest"),
    ],
    rows: rows.map((row) => ({ ...row, name: row.call, kind: "runtime" })),
    other: leftOut ? `${plural(leftOut, "shorter line")} left out.` : "",
    sort: { key: "total_ns", down: true },
  });
}
