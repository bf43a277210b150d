// The page of the memory timeline alone: its head, and the memory part below.

function showMemoryHead() {
  document.title = `${data.title} · otel-torchprof memory timeline`;
  byId("title").replaceChildren(nameOf(data.title));
  byId("when").textContent = data.facts.began;
  fill(byId("figures"), [
    ["duration", duration(data.facts.duration_ns)],
    ...data.memory.devices.map((device) => [`peak of ${device.name}`, bytes(device.peak_bytes)]),
  ]);
  byId("nothing").hidden = data.memory.devices.length > 0;
}

showMemoryHead();
showMemory();
