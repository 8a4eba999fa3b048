// Refreshes the parts of a page marked `data-live`, and adds "select all" to lists. Everything else works without it.
"use strict";

const EVERY = 3000;
const state = document.querySelector("[data-live-state]");

function tell(text, lively) {
    if (state) {
        state.hidden = false;
        state.textContent = text;
        state.classList.toggle("vt-live-on", lively);
    }
}

function isInUse(part) {
    const selection = document.getSelection();
    const selects = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
    return selects || (part.contains(document.activeElement) && document.activeElement !== document.body);
}

async function refresh(part) {
    const answer = await fetch(part.dataset.live, { headers: { Accept: "application/json" } });
    if (!answer.ok) {
        throw new Error(`status ${answer.status}`);
    }
    const { html, done } = await answer.json();
    if (!isInUse(part)) {
        const open = [...part.querySelectorAll("details[id][open]")].map((details) => details.id);
        part.innerHTML = html;
        open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    }
    return Boolean(done);
}

async function follow(part) {
    for (;;) {
        await new Promise((resolve) => setTimeout(resolve, EVERY));
        if (document.hidden) {
            continue;
        }
        try {
            if (await refresh(part)) {
                tell("finished", false);
                return;
            }
            tell("live", true);
        } catch (error) {
            tell("not refreshed: the site did not answer", false);
        }
    }
}

for (const part of document.querySelectorAll("[data-live]")) {
    tell("live", true);
    follow(part);
}

for (const place of document.querySelectorAll("[data-select-all]")) {
    const boxes = [...document.querySelectorAll('input[name="id"]')];
    const all = document.createElement("input");
    all.type = "checkbox";
    all.setAttribute("aria-label", "Select all on this page");
    all.addEventListener("change", () => boxes.forEach((box) => (box.checked = all.checked)));
    boxes.forEach((box) =>
        box.addEventListener("change", () => (all.checked = boxes.every((other) => other.checked))),
    );
    place.append(all);
}
