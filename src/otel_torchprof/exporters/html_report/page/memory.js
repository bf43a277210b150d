// Memory: what was in use over time by category, what at the peak, and what rises step over step.

const memoryView = { device: 0, category: null, from: 0, to: 0, at: null };

const memoryDevice = () => data.memory.devices[memoryView.device];

function showMemory() {
  const memory = data.memory;
  if (!memory.devices.length) return;
  byId("memory").hidden = false;
  const more = memory.left_out ? ` ${plural(memory.left_out, "device")} with less memory left out.` : "";
  byId("memory-hint").textContent =
    `What was in use, by what it was used for. Drag over the chart to zoom in; choose a category to see it alone.${more}`;
  const devices = byId("memory-devices");
  devices.hidden = memory.devices.length < 2;
  memory.devices.forEach((device, index) => {
    const button = make("button", { type: "button", className: "quiet", textContent: device.name, "aria-pressed": String(!index) });
    button.addEventListener("click", () => chooseMemoryDevice(index));
    devices.append(button);
  });
  memory.categories.forEach((label, category) => byId("memory-legend").append(memoryLegend(label, category)));
  connectMemoryChart();
  chooseMemoryDevice(0);
}

function memoryLegend(label, category) {
  const button = make("button", { type: "button", className: "quiet", "aria-pressed": "false" },
    make("i", { className: `dot memory-${category}` }), label);
  button.addEventListener("click", () => {
    memoryView.category = memoryView.category === category ? null : category;
    [...byId("memory-legend").querySelectorAll("button")].forEach((other, index) =>
      other.setAttribute("aria-pressed", String(index === memoryView.category)));
    drawMemory();
  });
  return make("li", {}, button);
}

function chooseMemoryDevice(index) {
  memoryView.device = index;
  [...byId("memory-devices").children].forEach((button, place) => button.setAttribute("aria-pressed", String(place === index)));
  const device = memoryDevice();
  [...byId("memory-legend").children].forEach((item, category) => {
    item.hidden = device.bytes[category].every((size) => size === 0);
  });
  const peak = make("dl");
  fill(peak, [
    ["peak", bytes(device.peak_bytes)],
    ["at", duration(device.peak_ns)],
    ...device.peak_by_category.flatMap((size, category) =>
      size ? [[data.memory.categories[category], `${bytes(size)} (${percent(size, device.peak_bytes)})`]] : []),
  ]);
  byId("memory-peak").replaceChildren(peak);
  zoomMemory(...memoryExtent(device));
  showMemoryTables(device);
}

function memoryExtent(device) {
  const last = device.times_ns.at(-1) ?? 0;
  return [Math.min(device.times_ns[0] ?? 0, 0), Math.max(last, data.facts.duration_ns, 1)];
}

function zoomMemory(from, to) {
  const [first, last] = memoryExtent(memoryDevice());
  const shortest = Math.min(Math.max((last - first) / 1e6, 1), last - first);
  memoryView.from = clamp(from, first, last - shortest);
  memoryView.to = clamp(to, memoryView.from + shortest, last);
  memoryView.at = null;
  byId("memory-whole").hidden = memoryView.from <= first && memoryView.to >= last;
  drawMemory();
}

// The last moment at or before a time; -1 before the first.
function memoryMoment(times, at) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const memorySizes = (device, moment) =>
  device.bytes.map((sizes, category) =>
    moment < 0 || (memoryView.category !== null && category !== memoryView.category) ? 0 : sizes[moment]);

function drawMemory() {
  const canvas = byId("memory-chart");
  const device = memoryDevice();
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const first = memoryMoment(device.times_ns, memoryView.from);
  const last = memoryMoment(device.times_ns, memoryView.to);
  let highest = 1;
  for (let moment = first; moment <= last; moment += 1) {
    highest = Math.max(highest, memorySizes(device, moment).reduce((sum, size) => sum + size, 0));
  }
  const style = getComputedStyle(document.documentElement);
  // On whole pixels: two areas that share one would leave a paler line between them.
  const snapped = (place) => Math.round(place * ratio) / ratio;
  const x = (time) => snapped(clamp(((time - memoryView.from) / (memoryView.to - memoryView.from)) * width, 0, width));
  const y = (size) => snapped(height - (size / highest) * (height - 8));
  drawMemorySteps(context, style, x, height);
  for (let moment = first; moment <= last; moment += 1) {
    const left = x(Math.max(moment < 0 ? memoryView.from : device.times_ns[moment], memoryView.from));
    const right = moment === last ? width : x(device.times_ns[moment + 1]);
    let below = 0;
    memorySizes(device, moment).forEach((size, category) => {
      if (!size) return;
      context.fillStyle = style.getPropertyValue(`--memory-${category}`);
      const top = y(below + size);
      context.fillRect(left, top, Math.max(right - left, 1 / ratio), y(below) - top);
      below += size;
    });
  }
  if (memoryView.at !== null) {
    context.fillStyle = style.getPropertyValue("--text");
    context.fillRect(x(memoryView.at), 0, 1, height);
  }
  byId("memory-scale").textContent = bytes(highest);
  byId("memory-from").textContent = duration(memoryView.from);
  byId("memory-to").textContent = duration(memoryView.to);
  const alone = memoryView.category === null ? "all categories" : data.memory.categories[memoryView.category];
  canvas.setAttribute("aria-label",
    `Memory of ${device.name} from ${duration(memoryView.from)} to ${duration(memoryView.to)}, ${alone}: up to ${bytes(highest)}`);
  describeMemory();
}

function drawMemorySteps(context, style, x, height) {
  context.fillStyle = style.getPropertyValue("--line");
  for (const end of data.memory.step_ends_ns) {
    if (end > memoryView.from && end < memoryView.to) context.fillRect(x(end), 0, 1, height);
  }
}

// What the line under the pointer says.
function describeMemory() {
  const device = memoryDevice();
  const text = byId("memory-at");
  if (memoryView.at === null) {
    text.textContent = "Point at the chart, or move along it with the arrow keys.";
    return;
  }
  const sizes = memorySizes(device, memoryMoment(device.times_ns, memoryView.at));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const parts = sizes.flatMap((size, category) => (size ? [`${data.memory.categories[category]} ${bytes(size)}`] : []));
  text.textContent = `At ${duration(memoryView.at)}: ${bytes(total)}${parts.length ? ` (${parts.join(", ")})` : ""}`;
}

function connectMemoryChart() {
  const canvas = byId("memory-chart");
  const band = byId("memory-band");
  let pressed = null;
  const timeAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return memoryView.from + clamp((event.clientX - box.left) / box.width, 0, 1) * (memoryView.to - memoryView.from);
  };
  const point = (at) => {
    memoryView.at = at;
    drawMemory();
  };
  const showBand = (from, to) => {
    const place = (time) => (100 * (time - memoryView.from)) / (memoryView.to - memoryView.from);
    band.hidden = from === to;
    band.style.left = `${place(Math.min(from, to))}%`;
    band.style.width = `${Math.abs(place(to) - place(from))}%`;
  };
  canvas.addEventListener("pointerdown", (event) => {
    pressed = { at: timeAt(event), x: event.clientX };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    point(timeAt(event));
    if (pressed) showBand(pressed.at, memoryView.at);
  });
  canvas.addEventListener("pointerup", (event) => {
    const start = pressed;
    pressed = null;
    band.hidden = true;
    const end = timeAt(event);
    // A click is no zoom.
    if (start && Math.abs(event.clientX - start.x) > 6) zoomMemory(Math.min(start.at, end), Math.max(start.at, end));
    else point(end);
  });
  canvas.addEventListener("pointercancel", () => {
    pressed = null;
    band.hidden = true;
  });
  canvas.addEventListener("pointerleave", () => {
    if (!pressed) point(null);
  });
  canvas.addEventListener("dblclick", () => zoomMemory(...memoryExtent(memoryDevice())));
  canvas.addEventListener("keydown", moveInMemory);
  byId("memory-whole").addEventListener("click", () => {
    zoomMemory(...memoryExtent(memoryDevice()));
    canvas.focus();
  });
  byId("memory-to-peak").addEventListener("click", () => {
    const at = memoryDevice().peak_ns;
    const part = (memoryView.to - memoryView.from) / 8;
    zoomMemory(at - part, at + part);
    point(at);
  });
  addEventListener("resize", drawMemory);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMemory);
}

function moveInMemory(event) {
  const width = memoryView.to - memoryView.from;
  const at = memoryView.at ?? memoryDevice().peak_ns;
  const to = { ArrowLeft: at - width / 100, ArrowRight: at + width / 100, Home: memoryView.from, End: memoryView.to }[event.key];
  if (to !== undefined) memoryView.at = clamp(to, memoryView.from, memoryView.to);
  else if (event.key === "Enter" || event.key === "+") {
    zoomMemory(at - width / 4, at + width / 4);
    memoryView.at = clamp(at, memoryView.from, memoryView.to);
  } else if (event.key === "Escape" || event.key === "-") zoomMemory(...memoryExtent(memoryDevice()));
  else return;
  event.preventDefault();
  drawMemory();
}

function showMemoryTables(device) {
  const whole = device.peak_bytes;
  const shares = (rows) => rows.map((row) => [
    framesOf(row.frames, "none"), count(row.blocks), bytes(row.size_bytes), percent(row.size_bytes, whole),
  ]);
  const parts = [
    ["At the peak, by operator", ["operator", "blocks", "bytes", "share"], shares(device.by_operator)],
    ["At the peak, by module", ["module", "blocks", "bytes", "share"], shares(device.by_module)],
    ["At the peak, by stack", ["stack", "blocks", "bytes", "share"], shares(device.by_stack)],
    ["Largest blocks at the peak", ["block", "category", "allocated", "bytes"], device.largest.map((block) => [
      framesOf([block.name || block.operator, ...(block.module ? [`in ${block.module}`] : []), ...block.stack]),
      data.memory.categories[block.category], duration(block.allocated_ns), bytes(block.size_bytes),
    ])],
  ];
  const growth = device.growth;
  if (growth.sites.length) {
    parts.push([`Rising over ${plural(growth.steps, "step")}`, ["allocated in", "blocks", "in use", "a step"],
      growth.sites.map((site) => [
        framesOf([site.operator, ...(site.module ? [`in ${site.module}`] : []), ...site.stack]),
        count(site.blocks), `${bytes(site.first_bytes)} to ${bytes(site.last_bytes)}`, `+${bytes(Math.round(site.bytes_per_step))}`,
      ])]);
  }
  byId("memory-tables").replaceChildren(...parts.filter(([, , rows]) => rows.length).flatMap(memoryTable));
}

// The innermost frame, and what encloses it behind a click.
function framesOf(frames, none = "") {
  if (!frames.length) return make("span", { className: "empty", textContent: none });
  if (frames.length === 1) return nameOf(frames[0]);
  const list = make("ol");
  for (const frame of frames.slice(1)) list.append(make("li", {}, nameOf(frame)));
  return make("details", {}, make("summary", {}, nameOf(frames[0])), list);
}

function memoryTable([title, headings, rows]) {
  const head = make("tr");
  headings.forEach((heading, place) => head.append(make("th", { textContent: heading, className: place ? "" : "name", scope: "col" })));
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    row.forEach((value, place) => {
      const cell = make("td", { className: place ? "" : "name memory-name", "data-label": headings[place] });
      cell.append(value);
      line.append(cell);
    });
    body.append(line);
  }
  const table = make("table", { "aria-label": title }, make("thead", {}, head), body);
  return [make("h3", { textContent: title }), make("div", { className: "scroll" }, table)];
}
