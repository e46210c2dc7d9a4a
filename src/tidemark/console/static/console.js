"use strict";

// Regions that say where their fresh copy is fetch it while the page can be seen.
async function refresh(region) {
  try {
    const answer = await fetch(region.dataset.live, { headers: { "X-Fragment": "1" } });
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
    region.innerHTML = text;
    if (focused) document.getElementById(focused)?.focus();
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  }
}

function tick() {
  if (document.visibilityState === "visible") document.querySelectorAll("[data-live]").forEach(refresh);
}

setInterval(tick, 2000);

// The token of the printed link stands behind the #, which no server sees.
const token = document.querySelector("input[name=token]");
if (token && location.hash.startsWith("#token=")) {
  token.value = decodeURIComponent(location.hash.slice(7));
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("input[name=name]")?.focus();
}
