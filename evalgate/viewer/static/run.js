// Sliders next to the thresholds, and progress without loading the page again. Both pages work without it.
"use strict";

function addSliders() {
  for (const number of document.querySelectorAll(".threshold input[data-step]")) {
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = number.min;
    slider.max = number.max;
    slider.step = number.dataset.step;
    slider.value = number.value;
    slider.setAttribute("aria-label", `${number.getAttribute("aria-label")}, slider`);
    slider.addEventListener("input", () => { number.value = slider.value; });
    number.addEventListener("input", () => { slider.value = number.value; });
    number.closest(".threshold").append(slider);
  }
}

async function updateProgress() {
  const shown = document.getElementById("run");
  if (shown === null || shown.dataset.over === "yes") return;
  try {
    const answer = await fetch(location.pathname, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("run");
    if (fresh !== null) {
      const focused = document.activeElement?.matches("#run button") ?? false;
      shown.replaceWith(fresh);
      if (focused) (fresh.querySelector("button") ?? fresh.querySelector("a"))?.focus();
    }
  } catch {
    return;  // the server has ended
  }
  setTimeout(updateProgress, 700);
}

addSliders();
setTimeout(updateProgress, 700);
