// Keys and small conveniences. Every page works without this script.
"use strict";

const KEYS = [
  ["j", "next case"], ["k", "previous case"], ["u", "back to the list"], ["/", "search"],
  ["n", "next page of the list"], ["p", "previous page"], ["?", "this help"],
];

function isTyping(target) {
  return target.closest("input, select, textarea, [contenteditable]") !== null;
}

function moveInList(step) {
  const links = [...document.querySelectorAll(".case-link")];
  if (links.length === 0) return false;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
  return true;
}

function createHelp() {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "keys-title");
  const title = document.createElement("h2");
  title.id = "keys-title";
  title.textContent = "Keys";
  const list = document.createElement("dl");
  for (const [key, words] of KEYS) {
    const term = document.createElement("dt");
    const kbd = document.createElement("kbd");
    kbd.textContent = key;
    term.append(kbd);
    const meaning = document.createElement("dd");
    meaning.textContent = words;
    list.append(term, meaning);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.append(title, list, close);
  document.body.append(dialog);
  return dialog;
}

let help = null;
function showHelp() {
  help ??= createHelp();
  if (help.open) help.close();
  else help.showModal();
}

function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "?") {
    showHelp();
  } else if (help?.open) {
    return;
  } else {
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (target instanceof HTMLAnchorElement) target.click();
    else if (target) target.focus();
    else if (event.key === "j" || event.key === "k") {
      if (!moveInList(event.key === "j" ? 1 : -1)) return;
    } else return;
  }
  event.preventDefault();
}

// A step of a trace lights up the message that it brought about, and a message its steps.
function lightUp(event) {
  document.querySelectorAll(".lit").forEach((each) => each.classList.remove("lit"));
  const from = event.target.closest?.("[data-event]");
  if (!from) return;
  for (const each of document.querySelectorAll(`[data-event="${CSS.escape(from.dataset.event)}"]`)) {
    each.classList.add("lit");
  }
}

function setUp() {
  document.addEventListener("keydown", handleKey);
  const navigation = document.querySelector(".bar nav");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "keys";
  button.textContent = "?";
  button.setAttribute("aria-label", "Keys");
  button.addEventListener("click", showHelp);
  navigation?.append(button);
  for (const select of document.querySelectorAll(".search select")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  if (document.querySelector(".waterfall")) {
    document.addEventListener("mouseover", lightUp);
    document.addEventListener("focusin", lightUp);
  }
  const step = document.querySelector(".waterfall [aria-current]");
  if (step && new URLSearchParams(location.search).has("span")) step.focus();
}

setUp();
