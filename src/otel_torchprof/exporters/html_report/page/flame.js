// The flame graph, outermost calls on top. Frames are elements, so that they can be focused and read aloud;
// only those wide enough to be seen are there.

const MIN_FRAME_PX = 1.5;
const MIN_TEXT_PX = 34;
const FRAME_GROUPS = {
  op: "operator", user: "user scope", module: "module", python: "Python", python_c: "Python", runtime: "runtime call", driver: "runtime call",
};

const flame = {
  frames: [],
  roots: [],
  whole: 0,
  zoom: null, // the frame that fills the width; null = everything
  focused: null,
  elements: new Map(),
};

function showFlame() {
  const columns = data.flame;
  if (!columns.name.length) return;
  byId("flame").hidden = false;
  flame.frames = columns.name.map((name, index) => ({
    index,
    name: name < 0 ? `${plural(columns.folded[index], "narrow stack")}` : data.names[name],
    folded: columns.folded[index],
    kind: columns.folded[index] ? "other" : kindName(columns.kind[index]),
    calls: columns.calls[index],
    self: columns.self_ns[index],
    time: columns.time_ns[index],
    device: columns.device_ns[index],
    parent: null,
    children: [],
    depth: 0,
  }));
  for (const frame of flame.frames) {
    const parent = columns.parent[frame.index];
    if (parent < 0) {
      flame.roots.push(frame);
      continue;
    }
    frame.parent = flame.frames[parent];
    frame.depth = frame.parent.depth + 1;
    frame.parent.children.push(frame);
  }
  flame.whole = flame.roots.reduce((sum, frame) => sum + frame.time, 0);
  const folded = flame.frames.reduce((sum, frame) => sum + frame.folded, 0);
  byId("flame-hint").textContent =
    `${plural(columns.stacks, "distinct stack")} of all threads, ${duration(flame.whole)} of self time; wide is slow.` +
    (folded ? ` ${count(folded)} too narrow to tell apart are added up as “narrow stacks”.` : "") +
    " Click or press Enter to zoom, Escape to go back.";
  showLegend();
  const graph = byId("flame-graph");
  graph.addEventListener("click", (event) => withFrame(event, (frame) => zoomTo(frame === flame.zoom ? frame.parent : frame)));
  graph.addEventListener("mouseover", (event) => withFrame(event, showDetails));
  graph.addEventListener("focusin", (event) => withFrame(event, (frame) => {
    flame.focused = frame;
    showDetails(frame);
  }));
  graph.addEventListener("mouseleave", () => showDetails(flame.focused ?? flame.zoom));
  graph.addEventListener("keydown", moveInFlame);
  search.listeners.push(markFound);
  new ResizeObserver(drawFlame).observe(graph);
  showDetails(null);
}

function showLegend() {
  const groups = new Map();
  for (const frame of flame.frames) groups.set(FRAME_GROUPS[frame.kind] ?? "other", frame.kind);
  const item = (className, label) => byId("flame-legend").append(make("li", {}, make("i", { className: `dot ${className}` }), label));
  for (const [label, kind] of groups) item(`kind-${kind}`, label);
  item("narrow-mark", "too narrow to show here, zoom in");
}

function withFrame(event, action) {
  const element = event.target.closest("[data-frame]");
  if (element) action(flame.frames[Number(element.dataset.frame)]);
}

// What is to be seen: the callers of the zoomed frame in full width, and below it whatever is wide enough. Side by
// side, frames that are not leave a mark (`frame` is null), because an empty place means time of the caller itself.
function layout(width) {
  const placed = [];
  const callers = [];
  for (let frame = flame.zoom?.parent ?? null; frame; frame = frame.parent) callers.unshift(frame);
  for (const frame of callers) placed.push({ frame, depth: frame.depth, left: 0, width, caller: true });
  const whole = flame.zoom ? flame.zoom.time : flame.whole;
  const pending = [[flame.zoom ? [flame.zoom] : flame.roots, 0]];
  while (pending.length) {
    const [siblings, from] = pending.pop();
    let left = from;
    let narrow = 0; // width of the frames before this one that are not shown
    const mark = () => {
      if (narrow >= MIN_FRAME_PX) placed.push({ frame: null, depth: siblings[0].depth, left: left - narrow, width: narrow });
      narrow = 0;
    };
    for (const frame of siblings) {
      const size = whole ? (frame.time / whole) * width : 0;
      if (size >= MIN_FRAME_PX || frame === flame.zoom) {
        mark();
        placed.push({ frame, depth: frame.depth, left, width: size, caller: false });
        if (frame.children.length) pending.push([frame.children, left]);
      } else narrow += size;
      left += size;
    }
    mark();
  }
  return placed;
}

function drawFlame() {
  const graph = byId("flame-graph");
  const width = graph.clientWidth;
  if (!width) return;
  const held = graph.contains(document.activeElement);
  const placed = layout(width);
  flame.elements.clear();
  const elements = placed.map(({ frame, depth, left, width: size, caller }) => {
    const element = frame ? frameElement(frame, caller) : make("div", { className: "narrow", role: "presentation" });
    element.style.left = `${left}px`;
    element.style.width = `${Math.max(size - 1, 1)}px`;
    element.style.setProperty("--depth", String(depth));
    if (frame && size >= MIN_TEXT_PX) element.append(nameOf(frame.name));
    return element;
  });
  graph.replaceChildren(...elements);
  const depth = placed.reduce((most, place) => Math.max(most, place.depth), 0);
  graph.style.setProperty("--levels", String(depth + 1));
  markFound();
  const first = flame.elements.get(flame.focused) ?? flame.elements.get(flame.zoom) ?? [...flame.elements.values()][0];
  if (!first) return;
  first.tabIndex = 0;
  if (held) first.focus({ preventScroll: true });
}

function frameElement(frame, caller) {
  const figures = `${duration(frame.time)}, ${percent(frame.time, flame.whole)} of all, ${plural(frame.calls, "call")}`;
  const element = make("div", {
    role: "treeitem",
    tabIndex: -1,
    className: `frame kind-${frame.kind}${caller ? " caller" : ""}`,
    "data-frame": frame.index,
    "aria-level": frame.depth + 1,
    "aria-label": `${frame.name}, ${figures}`,
  });
  flame.elements.set(frame, element);
  return element;
}

function zoomTo(frame) {
  flame.zoom = frame;
  if (frame) flame.focused = frame;
  drawFlame();
  const path = [];
  for (let above = frame; above; above = above.parent) path.unshift(above);
  const step = (text, target) => {
    const button = make("button", { type: "button", className: "quiet" }, nameOf(text));
    button.addEventListener("click", () => zoomTo(target));
    return button;
  };
  byId("flame-path").replaceChildren(...(path.length ? [step("everything", null), ...path.map((above) => step(above.name, above))] : []));
  showDetails(frame);
}

function moveInFlame(event) {
  const frame = flame.focused;
  const key = event.key;
  if (key === "Escape") {
    if (!flame.zoom) return;
    zoomTo(flame.zoom.parent);
  } else if (!frame) return;
  else if (key === "Enter" || key === " ") zoomTo(frame === flame.zoom ? frame.parent : frame);
  else if (key === "ArrowUp") focusFrame(frame.parent);
  else if (key === "ArrowDown") focusFrame(frame.children.find((child) => flame.elements.has(child)));
  else if (key === "ArrowLeft" || key === "ArrowRight") focusFrame(beside(frame, key === "ArrowLeft" ? -1 : 1));
  else if (key === "Home") focusFrame(flame.zoom ?? flame.roots[0]);
  else return;
  event.preventDefault();
}

// The next frame of the same depth, whoever its caller is.
function beside(frame, by) {
  const level = [...flame.elements.keys()].filter((other) => other.depth === frame.depth);
  level.sort((one, two) => one.index - two.index);
  return level[level.indexOf(frame) + by];
}

function focusFrame(frame) {
  const element = frame && flame.elements.get(frame);
  if (!element) return;
  for (const other of byId("flame-graph").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  element.tabIndex = 0;
  element.focus();
}

// Leads from elsewhere on the page to a frame.
function showFrame(frame) {
  zoomTo(frame);
  focusFrame(frame);
  flame.elements.get(frame)?.scrollIntoView({ block: "center" });
}

function showDetails(frame) {
  const panel = byId("flame-details");
  if (!frame) {
    panel.replaceChildren(make("p", { className: "hint", textContent: "Point at a frame or focus it to see its figures." }));
    return;
  }
  const pairs = [
    ["time", `${duration(frame.time)} (${percent(frame.time, flame.whole)} of all)`],
    ["self", `${duration(frame.self)} (${percent(frame.self, frame.time)} of it)`],
    ["calls", count(frame.calls)],
  ];
  if (frame.calls) pairs.push(["time a call", duration(frame.time / frame.calls)]);
  if (frame.parent) pairs.push(["of its caller", percent(frame.time, frame.parent.time)]);
  if (frame.device) pairs.push(["device work launched", duration(frame.device)]);
  const list = make("dl");
  fill(list, pairs);
  panel.replaceChildren(make("h3", {}, nameOf(frame.name)), list);
}

// Dims what does not match; the time of matches counts once where one lies within another.
function markFound() {
  const active = search.text !== "";
  byId("flame-graph").classList.toggle("searching", active);
  for (const [frame, element] of flame.elements) element.classList.toggle("match", active && !frame.folded && matches(frame.name));
}

function foundInFlame() {
  const within = new Set();
  let time = 0;
  let frames = 0;
  for (const frame of flame.frames) {
    const inside = frame.parent !== null && within.has(frame.parent);
    const found = !frame.folded && matches(frame.name);
    if (found) frames += 1;
    if (found && !inside) time += frame.time;
    if (found || inside) within.add(frame);
  }
  return { frames, time };
}
