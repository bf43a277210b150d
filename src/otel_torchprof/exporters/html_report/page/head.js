// The head of the page: what was recorded, and plainly what is missing from it.

function showHead() {
  const facts = data.facts;
  document.title = `${data.title} · otel-torchprof report`;
  byId("title").replaceChildren(nameOf(data.title));
  byId("when").textContent = facts.began;
  const figures = [
    ["duration", duration(facts.duration_ns)],
    ["events", count(facts.events)],
    [facts.threads === 1 ? "thread" : "threads", count(facts.threads)],
  ];
  if (data.steps.count) {
    figures.push([data.steps.count === 1 ? "step" : "steps", count(data.steps.count)]);
    if (data.steps.count > 1) figures.push(["median step", duration(data.steps.median_ns)]);
  }
  figures.push(...deviceFigures(data.devices));
  fill(byId("figures"), figures);
  const kinds = Object.entries(facts.kinds).map(([kind, events]) => `${kind} ${count(events)}`);
  fill(byId("lines"), [...facts.lines, ["events by kind", kinds.join(", ") || "none"]]);
  byId("notices").append(...notices(facts));
}

// One figure a device; of more than a few only the least and the most busy.
function deviceFigures(devices) {
  const busy = devices.map((device) => [`device ${device.number} busy`, percent(device.busy_ns, device.span_ns)]);
  if (devices.length <= 4) return busy;
  const order = devices.map((device, index) => [device.busy_ns / device.span_ns, index]).sort(([one], [two]) => one - two);
  return [busy[order[0][1]], busy[order.at(-1)[1]]];
}

function fill(list, pairs) {
  for (const [label, value] of pairs) {
    list.append(make("div", {}, make("dt", { textContent: label }), make("dd", {}, nameOf(value))));
  }
}

function* notices(facts) {
  const sum = (counts) => counts.reduce((total, [, number]) => total + number, 0);
  if (facts.drops.length) {
    yield notice("warn", "dropped", `${plural(sum(facts.drops), "event")} could not be recorded`, facts.drops);
  }
  if (!facts.stopped) {
    yield notice("warn", "unfinished", "The recording was never stopped: it ends with the last event that was complete", []);
  }
  if (facts.problems.length) {
    yield notice("note", "problems", "The input was not sound; what could be read is here", facts.problems);
  }
  if (!facts.drops.length && facts.stopped && !facts.problems.length) {
    yield notice("good", "complete", "Complete: nothing was dropped, nothing had to be mended", []);
  }
}

function notice(tone, id, text, counts) {
  const box = make("div", { className: `notice ${tone}`, id: `notice-${id}`, role: "note" }, make("p", { textContent: text }));
  if (counts.length) {
    const list = make("ul");
    for (const [name, number] of counts) {
      list.append(make("li", {}, nameOf(name.replaceAll("_", " ")), ` ${count(number)}`));
    }
    box.append(list);
  }
  return box;
}
