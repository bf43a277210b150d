// What makes the program slow: each finding with what it costs, how to mend it, and where it is on this page.

const findings = data.findings.found;

function showFindings() {
  const { not_checked: notChecked, has_slow_step: hasSlowStep } = data.findings;
  if (!findings.length && !notChecked.length && !hasSlowStep) return;
  byId("findings").hidden = false;
  byId("findings-hint").append(findings.length ? findingsHint() : hasSlowStep ? "No known cause of slowness that repeats was found." : "No known cause of slowness was found.");
  if (hasSlowStep) {
    const [step] = data.steps.slowest;
    byId("findings-hint").append(" One step stands out: ", stepLink(step), ` took ${howLong(step)}.`);
  }
  byId("findings-list").append(...findings.map(findingCard));
  search.listeners.push(filterFindings);
  if (!notChecked.length) return;
  const list = make("ul");
  for (const [pattern, reason] of notChecked) list.append(make("li", {}, nameOf(pattern, "code"), ": ", nameOf(reason)));
  byId("findings-not-checked").hidden = false;
  byId("findings-not-checked").append(make("summary", { textContent: `${plural(notChecked.length, "pattern")} not checked, and why` }), list);
}

function findingsHint() {
  const { left_out: leftOut, steps, steps_left_out: stepsLeftOut, window_ns: window } = data.findings;
  return "Known causes of slowness, the most costly first. What mending saves is an estimate." +
    ` Shares are of the ${duration(window)} from the first event to the last.` +
    (leftOut ? ` ${plural(leftOut, "less costly one")} left out.` : "") +
    (stepsLeftOut ? ` A step: the mean over ${plural(steps, "whole step")}; ${count(stepsLeftOut)} not recorded whole left out.` : "");
}

function findingCard(finding, index) {
  const summary = make("summary", {},
    make("span", { className: `badge severity-${finding.severity}`, title: "severity", textContent: finding.severity }),
    nameOf(finding.title, "strong"),
    make("span", { className: "gain", textContent: gain(finding) }),
    make("span", { className: "where" }, nameOf(shortPlace(finding))));
  const card = make("details", { className: "card finding", open: index === 0, "data-finding": String(index) }, summary);
  const facts = make("dl");
  fill(facts, factsOf(finding));
  card.append(make("p", { className: "detail" }, nameOf(finding.detail)), facts, make("p", {}, nameOf(finding.advice)));
  if (finding.example) card.append(make("pre", { tabIndex: 0, "aria-label": "Example" }, nameOf(finding.example, "code")));
  card.append(actions(finding, card));
  return card;
}

// Without a greatest saving only what it costs is known.
function gain({ saving_ns: [low, high], cost_ns: cost, cost_bytes: size }) {
  if (high > 0) return low > 0 ? `may save ${duration(low)} to ${duration(high)}` : `may save up to ${duration(high)}`;
  return cost ? `costs ${duration(cost)}` : size ? `holds ${bytes(size)}` : "";
}

const shortPlace = ({ function: name, file, module, op }) => (name ? `${name} (${file.split("/").at(-1)})` : module || op);

function factsOf(finding) {
  const [low, high] = finding.saving_ns;
  const share = (ns) => `${duration(ns)} (${percent(ns, data.findings.window_ns)} of the time)`;
  const pairs = [
    ["pattern", finding.pattern],
    ["confidence", finding.confidence],
    ["cost", share(finding.cost_ns)],
    ...(finding.cost_per_step_ns === null ? [] : [["cost a step", duration(finding.cost_per_step_ns)]]),
    ["mending may save", `${duration(low)} to ${share(high)}`],
    ["events", count(finding.events) + (finding.count_per_step === null ? "" : `, ${rounded(finding.count_per_step)} a step`)],
  ];
  if (finding.cost_bytes) pairs.push(["bytes", bytes(finding.cost_bytes)]);
  if (finding.function) pairs.push(["function", finding.function], ["at", finding.file]);
  if (finding.module) pairs.push(["module", finding.module]);
  if (finding.op) pairs.push(["op", finding.op]);
  if (finding.also.length) pairs.push(["is the cause of", finding.also.join(", ")]);
  return pairs;
}

function actions(finding, card) {
  const row = make("p", { className: "actions" });
  const button = (text, act) => {
    const element = make("button", { type: "button", className: "quiet", textContent: text });
    element.addEventListener("click", act);
    row.append(element);
  };
  if (finding.frame >= 0) button("Show in the flame graph", () => showFrame(flame.frames[finding.frame]));
  if (finding.marks.length) button("Mark on the lanes", () => markOnLanes(finding, card));
  // What is no web address is shown, and leads nowhere.
  if (/^https?:\/\//.test(finding.url)) row.append(make("a", { href: finding.url, rel: "noopener noreferrer", textContent: "Documentation" }));
  else if (finding.url) row.append(nameOf(finding.url));
  return row;
}

function filterFindings() {
  const cards = [...byId("findings-list").children];
  for (const card of cards) {
    const { title, pattern, function: name, file, module, op } = findings[card.dataset.finding];
    card.hidden = search.text !== "" && ![title, pattern, name, file, module, op].some(matches);
  }
  byId("findings-empty").hidden = !cards.length || cards.some((card) => !card.hidden);
}

// Shows on the lanes when the events of a finding went on, until cleared.
function markOnLanes(finding, card) {
  clearLanes();
  const strips = byId("lanes").querySelectorAll(".strip");
  const buckets = data.activity.lanes[0].percent.length;
  for (const [lane, runs] of finding.marks) {
    for (const [first, last] of runs) {
      const mark = make("i", { className: "mark" });
      mark.style.left = `${(100 * first) / buckets}%`;
      mark.style.width = `${(100 * (last - first + 1)) / buckets}%`;
      strips[lane].append(mark);
    }
  }
  const back = make("button", { type: "button", className: "quiet", textContent: "Clear, and back to the finding" });
  back.addEventListener("click", () => {
    clearLanes();
    card.querySelector("summary").focus();
  });
  byId("activity-marked").replaceChildren("Marked: ", nameOf(finding.title, "strong"), `, ${plural(finding.events, "event")}. `, back);
  byId("activity-marked").hidden = false;
  byId("activity").scrollIntoView();
  back.focus({ preventScroll: true });
}

function clearLanes() {
  for (const mark of byId("lanes").querySelectorAll(".mark")) mark.remove();
  byId("activity-marked").hidden = true;
}
