"use strict";
// Search, sorting and groups. Without this script the page shows the same, in the order of importance.
(() => {
  const byId = (id) => document.getElementById(id);
  const list = byId("cases"), search = byId("search"), sort = byId("sort"), group = byId("group");
  const cases = [...list.querySelectorAll(":scope > .case")].map((element, rank) => {
    const [time, cost, scores] = element.dataset.sort.split(";");
    const groups = element.dataset.group.split(";").map((numbers) => Math.min(...numbers.split(" ").filter(Boolean)));
    return { element, rank, time, cost, scores: scores.split(","), groups };
  });
  let headings = [];

  // Commands name other cases, too.
  const readText = (each) => (each.text ??= [...each.element.querySelectorAll("h3, .body > :not(.again)")].map((part) => part.textContent).join("\n").toLowerCase());
  const readName = (each) => (each.name ??= each.element.querySelector(".name").textContent);
  const readKey = (each, key) => {
    const text = key.startsWith("score") ? each.scores[Number(key.slice(5))] : each[key];
    return text === undefined || text === "" ? NaN : Number(text);
  };
  const compare = (key) => (one, other) => {
    if (key === "rank") return one.rank - other.rank;
    if (key === "name") return readName(one).localeCompare(readName(other), undefined, { numeric: true }) || one.rank - other.rank;
    const [a, b] = [readKey(one, key), readKey(other, key)];
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || one.rank - other.rank;
    return (key.startsWith("score") ? a - b : b - a) || one.rank - other.rank;
  };

  const arrange = () => {
    headings.forEach(({ heading }) => heading.remove());
    headings = [];
    const order = [...cases].sort(compare(sort.value));
    const at = group.value === "" ? -1 : Number(group.value);
    if (at >= 0) order.sort((one, other) => one.groups[at] - other.groups[at] || 0);
    const all = document.createDocumentFragment();
    let last;
    for (const each of order) {
      if (at >= 0 && each.groups[at] !== last) {
        last = each.groups[at];
        const heading = document.createElement("h3");
        heading.className = "group-title";
        const label = byId(`group-${at}-${last}`);
        heading.append(...(label ? [...label.cloneNode(true).childNodes] : ["Others"]));
        heading.append(document.createElement("b"));
        headings.push({ heading, members: [] });
        all.append(heading);
      }
      if (at >= 0) headings.at(-1).members.push(each);
      all.append(each.element);
    }
    list.append(all);
    filter();
  };

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = list.querySelector("input[name=show]:checked").id.slice("show-".length);
    let shown = 0;
    for (const each of cases) {
      const fits = words.every((word) => readText(each).includes(word));
      each.element.hidden = !fits;
      each.shown = fits && (kind === "all" || each.element.classList.contains(kind));
      shown += each.shown;
    }
    for (const { heading, members } of headings) {
      const count = members.filter((each) => each.shown).length;
      heading.hidden = count === 0;
      heading.lastChild.textContent = ` ${count}`;
    }
    byId("shown").textContent =
      shown === cases.length ? "" : `${shown.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases on this page`;
  };

  const openTarget = () => {
    const target = location.hash.length > 1 && byId(location.hash.slice(1));
    const holder = target && target.closest(".case");
    if (!holder) return;
    if (!cases.find((each) => each.element === holder).shown) {
      search.value = "";
      byId("show-all").checked = true;
      filter();
    }
    for (let box = target; box; box = box.parentElement.closest("details")) if (box.tagName === "DETAILS") box.open = true;
    target.scrollIntoView();
  };

  const step = (by) => {
    const shown = [...list.querySelectorAll(":scope > .case")].filter((each) => each.checkVisibility());
    const here = shown.findIndex((each) => each.contains(document.activeElement));
    const next = shown[here < 0 ? (by > 0 ? 0 : shown.length - 1) : here + by]?.querySelector("summary");
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };

  const light = (event) => {
    document.querySelectorAll(".lit").forEach((each) => each.classList.remove("lit"));
    const from = event.target.closest?.(".step, .talk > li[id]");
    if (!from) return;
    const link = from.id ? `a[href="#${CSS.escape(from.id)}"]` : 'a[href^="#"]';
    const links = [...(from.id ? from.closest(".run") : from).querySelectorAll(`.step ${link}, ${link}`)];
    links.forEach((each) => (from.id ? each.closest(".step") : byId(each.hash.slice(1)))?.classList.add("lit"));
  };

  let pending;
  search.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(filter, 60);
  });
  [sort, group].forEach((each) => each.addEventListener("change", arrange));
  list.addEventListener("change", (event) => event.target.name === "show" && filter());
  list.addEventListener("mouseover", light);
  list.addEventListener("focusin", light);
  addEventListener("hashchange", openTarget);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target === search) {
      search.value = "";
      filter();
    } else if (!event.target.closest?.("input[type=search], select")) {
      if (event.key === "/") {
        event.preventDefault();
        search.focus();
      } else if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
    }
  });

  byId("tools").hidden = false;
  arrange();
  openTarget();
})();
