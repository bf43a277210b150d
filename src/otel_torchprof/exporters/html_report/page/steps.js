// Steps as bars, with the slowest of them above; the chosen one decides what the tables of operators are about.

const SCALE_OVER_USUAL = 8; // times what nine of ten steps take: a bar that would be taller is cut off
const MIN_LABEL_PX = 52;
const MIN_INCOMPLETE_PX = 70; // where one of them says "incomplete"
const STEP_HASH = /^#step-(-?\d+)$/;

let chosenStep = null;

const stepName = (step) => {
  const number = data.steps.number[step];
  return number === null ? `the step at ${duration(data.steps.start_ns[step])}` : `step ${count(number)}`;
};
const begun = (text) => text[0].toUpperCase() + text.slice(1);
// What the recording lacks of steps: how long one that was cut off took nobody knows, nor what an incomplete one did.
const CUT_OFF = "the recording began or ended inside it";
const LACKS = { partial: CUT_OFF, unfinished: CUT_OFF, incomplete: "events in it were dropped or cut off" };
const lacking = (step) => data.steps.lack[step];
const lackText = (step) => `${lacking(step)}: ${LACKS[lacking(step)]}`;
// Whether medians and the scale are of this step.
const counts = (step) => !lacking(step) || data.steps.lack.every(Boolean);

function showSteps() {
  const steps = data.steps;
  if (!steps.count) return;
  byId("steps").hidden = false;
  byId("steps-hint").textContent = stepsHint();
  showSlowest();
  const scale = showStepScale();
  byId("steps-plot").style.setProperty("--bars", String(steps.number.length));
  const list = byId("step-bars");
  list.append(...steps.number.map((_, step) => stepBar(step, scale)));
  list.addEventListener("keydown", moveInSteps);
  new ResizeObserver(labelSteps).observe(list);
  showStepsLegend(scale);
  addEventListener("hashchange", chooseStepOfHash);
}

function stepsHint() {
  const { count: all, counted, median_ns: median, stands_for: standsFor, lack } = data.steps;
  const shared = Math.max(...standsFor);
  const left = all - counted;
  const whole = lack.every(Boolean) ? `${plural(all, "step")}, none of them recorded whole` : plural(counted, left ? "whole step" : "step");
  const parts = [all > 1 ? `${whole}, ${duration(median)} the median.` : "One step."];
  if (left) parts.push(`${count(left)} more not recorded whole, in neither the median nor the scale.`);
  if (shared > 1) parts.push(`Each bar is the slowest of up to ${shared} steps.`);
  parts.push("Choose one to see what it did.");
  return parts.join(" ");
}

// The slowest steps, by how much they were slower than a median one, and what took that time.
function showSlowest() {
  const { slowest, duration_ns: lasted } = data.steps;
  if (!slowest.length) return;
  byId("steps-slowest").hidden = false;
  byId("slowest-steps").append(...slowest.slice(0, 5).map((step) => {
    const [cause] = changesIn(step).filter((change) => change.change > 0);
    const line = make("li", {}, stepLink(step, begun(stepName(step))), ` ${duration(lasted[step])}, ${againstMedian(lasted[step])}`);
    if (cause) {
      line.append(make("span", { className: "cause" }, " · most in ", nameOf(cause.name), ` ${signedDuration(cause.change)}`));
    }
    return line;
  }));
}

function stepLink(step, text = stepName(step)) {
  const link = make("a", { href: stepHash(step) || "#steps", textContent: text });
  link.addEventListener("click", (event) => {
    event.preventDefault();
    chooseStep(step);
    byId("step-panel").scrollIntoView({ block: "nearest" });
  });
  return link;
}

// How long the tallest bar may be, a round number; draws the axis and its lines.
function showStepScale() {
  const { duration_ns: lasted, median_ns: median, counted } = data.steps;
  const sorted = lasted.filter((_, step) => counts(step)).sort((one, two) => one - two);
  const usual = sorted[Math.floor(0.9 * (sorted.length - 1))];
  const top = Math.max(usual ? Math.min(sorted.at(-1), SCALE_OVER_USUAL * usual) : sorted.at(-1), 1);
  const tick = roundTick(top / 4);
  const ticks = Math.ceil(top / tick);
  const scale = tick * ticks;
  for (let at = 0; at <= ticks; at += 1) {
    const label = make("span", { textContent: at ? duration(at * tick).replace(/\.0+ /, " ") : "0" });
    label.style.bottom = `${(100 * at) / ticks}%`;
    byId("steps-axis").append(label);
    byId("steps-grid").append(gridLine("", at / ticks));
  }
  if (counted > 1) byId("steps-grid").append(gridLine("median", Math.min(median / scale, 1)));
  return scale;
}

function gridLine(className, part) {
  const line = make("i", { className });
  line.style.bottom = `${100 * part}%`;
  return line;
}

// The next of 1, 2, 5, 10, 20, ... ns.
function roundTick(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
}

function stepBar(step, scale) {
  const { duration_ns: lasted, slowest, device_ns: deviceNs } = data.steps;
  const ns = lasted[step];
  const classes = ["step", lacking(step) && "partial", slowest.slice(0, 5).includes(step) && "slow", ns > scale && "cut"];
  const said = `${duration(ns)}${lacking(step) ? `, ${lackText(step)}` : ""}`;
  const option = make("div", {
    role: "option",
    className: classes.filter(Boolean).join(" "),
    tabIndex: step ? -1 : 0,
    title: `${stepName(step)}: ${said}`,
    "aria-label": `${stepName(step)}, ${said}`,
    "aria-selected": "false",
  }, make("i"));
  option.firstChild.style.setProperty("--height", String(Math.min(ns / scale, 1)));
  if (data.devices.length) option.firstChild.style.setProperty("--busy", String(ns ? clamp(deviceNs[step] / ns, 0, 1) : 0));
  option.addEventListener("click", () => chooseStep(step === chosenStep ? null : step));
  return option;
}

// Numbers below as many bars as have room for one.
function labelSteps() {
  const options = [...byId("step-bars").children];
  const width = options[0].getBoundingClientRect().width + 2;
  const least = data.steps.lack.includes("incomplete") ? MIN_INCOMPLETE_PX : MIN_LABEL_PX;
  const every = [1, 2, 5, 10, 20, 50, 100].find((bars) => bars * width >= least) ?? 200;
  options.forEach((option, step) => {
    option.querySelector("b")?.remove();
    const number = data.steps.first_number[step];
    const hasRoom = step === 0 || every === 1 || (options.length - step) * width >= least;
    if (number === null || step % every || !hasRoom) return;
    const label = lacking(step) ? `${count(number)}\n${lacking(step)}` : count(number);
    option.append(make("b", { textContent: label, "aria-hidden": "true", className: every === 1 ? "centred" : "" }));
  });
}

function showStepsLegend(scale) {
  const { lack, slowest, duration_ns: lasted, counted, median_ns: median } = data.steps;
  const item = (className, label) => byId("steps-legend").append(make("li", {}, make("i", { className: `dot ${className}` }), label));
  if (data.devices.length) item("bar-device", "part in which a device was busy");
  if (slowest.length) item("bar-slow", "one of the slowest");
  for (const [name, text] of Object.entries(LACKS)) {
    if (lack.includes(name)) item("bar-partial", `${name}: ${text}`);
  }
  if (lasted.some((ns) => ns > scale)) item("bar-cut", "taller than the scale");
  if (counted > 1) item("line-median", `median, ${duration(median)}`);
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
  reachStep(option);
  option.focus();
}

// The bar that the Tab key leads to.
function reachStep(option) {
  for (const other of byId("step-bars").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  option.tabIndex = 0;
}

function chooseStep(step, note = "") {
  chosenStep = step;
  const options = [...byId("step-bars").children];
  options.forEach((option, index) => option.setAttribute("aria-selected", String(index === step)));
  const panel = byId("step-panel");
  panel.hidden = step === null;
  byId("step-note").textContent = note;
  byId("step-note").hidden = !note;
  if (step !== null) {
    reachStep(options[step]);
    options[step].scrollIntoView({ block: "nearest", inline: "center" });
    panel.replaceChildren(...stepPanel(step));
  }
  showOps(step);
  markStep(step);
  const hash = step === null ? "" : stepHash(step);
  if (hash || STEP_HASH.test(location.hash)) history.replaceState(null, "", hash || location.href.split("#")[0]);
}

const stepHash = (step) => (data.steps.number[step] === null ? "" : `#step-${data.steps.number[step]}`);

// Of a link such as report.html#step-4000.
function chooseStepOfHash() {
  const wanted = Number(STEP_HASH.exec(location.hash)?.[1] ?? NaN);
  if (Number.isNaN(wanted) || !data.steps.count) return;
  const { number: numbers, first_number: first, stands_for: standsFor } = data.steps;
  const own = numbers.indexOf(wanted);
  const shared = numbers.findIndex((_, step) => first[step] !== null && wanted >= first[step] && wanted < first[step] + standsFor[step]);
  const step = own >= 0 ? own : shared >= 0 ? shared : null;
  let note = "";
  if (step === null) note = `There is no step ${count(wanted)} in this recording.`;
  else if (own < 0) note = `Step ${count(wanted)} shares a bar with others; this is the slowest of them, ${stepName(step)}. “report --step ${wanted}” shows it alone.`;
  chooseStep(step, note);
  byId("steps").scrollIntoView();
}
