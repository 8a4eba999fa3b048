// Asks for the state of the job until it is finished, and shows it.
const job = document.getElementById("job");
const part = (id) => document.getElementById(id);
const seconds = (from, to) => ((new Date(to) - new Date(from)) / 1000).toFixed(2);

function show(now) {
  part("status").textContent = now.status.toLowerCase();
  part("status").dataset.state = now.status.toLowerCase();
  part("message").textContent = now.finished ? "" : now.message;
  const bar = part("progress");
  if (now.finished) { bar.max = 1; bar.value = now.status === "SUCCESSFUL" ? 1 : 0; }
  else if (now.total) { bar.max = now.total; bar.value = now.done; }
  else bar.removeAttribute("value");
  const facts = [];
  if (now.times.started) facts.push(`waited ${seconds(now.times.enqueued, now.times.started)} s`);
  if (now.times.finished) facts.push(`took ${seconds(now.times.started, now.times.finished)} s`);
  if (now.attempts > 1) facts.push(`${now.attempts} attempts`);
  part("facts").textContent = facts.join(" · ");
  part("errors").hidden = !now.errors.length;
  part("errors").textContent = now.errors.length ? `Failed: ${now.errors.join(", ")}` : "";
  const thumbnails = (now.value && now.value.thumbnails) || [];
  if (now.value !== null && !thumbnails.length) {
    part("value").hidden = false;
    part("value").textContent = JSON.stringify(now.value, null, 2);
  }
  part("thumbs").replaceChildren(...thumbnails.map((one) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const image = document.createElement("img"), name = document.createElement("span");
    link.href = image.src = one.url;
    image.alt = name.textContent = one.name;
    link.append(image);
    item.append(link, name);
    return item;
  }));
}

async function follow(now) {
  for (;;) {
    show(now);
    if (now.finished) return;
    await new Promise((wake) => setTimeout(wake, 300));
    try {
      const answer = await fetch(job.dataset.url);
      if (answer.ok) now = await answer.json();
    } catch { /* the server is away for a moment: ask again */ }
  }
}

follow(JSON.parse(part("now").textContent));
