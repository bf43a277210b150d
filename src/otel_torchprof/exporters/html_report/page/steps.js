// Steps as bars; the chosen one decides what the table of operators is about.

let chosenStep = null;

const stepName = (step) => {
  const number = data.steps.number[step];
  return number === null ? `the step at ${duration(data.steps.start_ns[step])}` : `step ${count(number)}`;
};

function showSteps() {
  const steps = data.steps;
  if (!steps.count) return;
  byId("steps").hidden = false;
  const shared = Math.max(...steps.stands_for);
  const bars = shared > 1 ? ` Each bar is the slowest of up to ${shared} steps.` : "";
  const all = steps.count > 1 ? `${plural(steps.count, "step")}, ${duration(steps.median_ns)} the median.` : "One step.";
  const device = data.devices.length > 0;
  const green = device ? " The green part of a bar is how much of it a device was busy." : "";
  byId("steps-hint").textContent = `${all}${bars}${green} Choose one to see what it did.`;
  const longest = Math.max(...steps.duration_ns, 1);
  byId("steps-scale").textContent = duration(longest);
  const list = byId("step-bars");
  steps.duration_ns.forEach((ns, step) => {
    const part = steps.partial[step] ? ", incomplete" : "";
    const option = make("div", {
      role: "option",
      className: steps.partial[step] ? "step partial" : "step",
      tabIndex: step ? -1 : 0,
      title: `${stepName(step)}: ${duration(ns)}${part}`,
      "aria-label": `${stepName(step)}, ${duration(ns)}${part}`,
      "aria-selected": "false",
    }, make("i"));
    option.firstChild.style.setProperty("--height", String(ns / longest));
    if (device) option.firstChild.style.setProperty("--busy", String(ns ? clamp(steps.device_ns[step] / ns, 0, 1) : 0));
    option.addEventListener("click", () => chooseStep(step === chosenStep ? null : step));
    list.append(option);
  });
  list.addEventListener("keydown", moveInSteps);
}

function moveInSteps(event) {
  const options = [...byId("step-bars").children];
  const at = options.indexOf(document.activeElement);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: options.length - 1 }[event.key];
  if (to !== undefined) focusStep(options[clamp(to, 0, options.length - 1)]);
  else if (event.key === "Enter" || event.key === " ") chooseStep(at);
  else if (event.key === "Escape" && chosenStep !== null) chooseStep(null);
  else return;
  event.preventDefault();
}

function focusStep(option) {
  for (const other of byId("step-bars").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  option.tabIndex = 0;
  option.focus();
}

function chooseStep(step) {
  chosenStep = step;
  [...byId("step-bars").children].forEach((option, index) => option.setAttribute("aria-selected", String(index === step)));
  const panel = byId("step-panel");
  panel.hidden = step === null;
  if (step !== null) panel.replaceChildren(...stepPanel(step));
  showOps(step);
  markStep(step);
}

function againstMedian(ns) {
  const { median_ns: median } = data.steps;
  return ns < 2 * median ? signedPercent(ns - median, median) : `${(ns / median).toFixed(1)} times as long`;
}

function stepPanel(step) {
  const steps = data.steps;
  const ns = steps.duration_ns[step];
  const pairs = [
    ["lasted", duration(ns)],
    ["began at", duration(steps.start_ns[step])],
    ["events", count(steps.events[step])],
  ];
  if (steps.count > 1 && steps.median_ns) pairs.splice(1, 0, ["against the median", againstMedian(ns)]);
  if (steps.phase[step] !== "unknown") pairs.push(["phase", steps.phase[step]]);
  if (data.devices.length) pairs.push(["device busy", percent(steps.device_ns[step], ns)]);
  if (steps.stands_for[step] > 1) pairs.push(["slowest of", plural(steps.stands_for[step], "step")]);
  if (steps.partial[step]) pairs.push(["", "incomplete: the recording began or ended inside it"]);
  const list = make("dl");
  fill(list, pairs);
  const name = stepName(step);
  const clear = make("button", { type: "button", className: "quiet", textContent: "Back to all steps" });
  clear.addEventListener("click", () => {
    chooseStep(null);
    byId("step-bars").querySelector('[tabindex="0"]').focus();
  });
  return [make("h3", { textContent: name[0].toUpperCase() + name.slice(1) }), list, clear];
}
