// Puts the parts on the page and connects the search box.

function showSections() {
  for (const section of document.querySelectorAll("main > section:not([hidden])")) {
    byId("sections").append(make("a", { href: `#${section.id}`, textContent: section.querySelector("h2").textContent }));
  }
}

function searchFor(text) {
  search.text = text.trim().toLowerCase();
  for (const listener of search.listeners) listener();
  byId("found").textContent = search.text ? foundText() : "";
}

function foundText() {
  const names = data.names.filter(matches).length;
  const { frames, time } = foundInFlame();
  if (!names) return "no match";
  return `${plural(names, "name")}` + (frames ? `, ${plural(frames, "frame")} with ${percent(time, flame.whole)} of the time` : "");
}

function connectSearch() {
  const box = byId("search");
  box.addEventListener("input", () => searchFor(box.value));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (box.value) {
      box.value = "";
      searchFor("");
    } else box.blur();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target === box) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}

showHead();
showActivity();
showSteps();
showOps();
showFindings();
showModules();
showFlame();
showMemory();
showDevices();
showCounters();
showSections();
connectSearch();
chooseStepOfHash();
