// The page's behaviour: the theme's switch and the table of all trials. Whatever comes from the
// evidence enters the page as text (`textContent`), never as markup.
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);

  /** Makes an element with attributes and children; strings become text. */
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // --- theme ---------------------------------------------------------------------------------

  const themeButton = byId("theme");
  const systemIsDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  let chosen = null;
  try { chosen = localStorage.getItem("warpsmith-theme"); } catch { /* storage may be forbidden */ }

  const showTheme = () => {
    const isDark = chosen ? chosen === "dark" : systemIsDark();
    document.documentElement.style.colorScheme = chosen || "light dark";
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    themeButton.textContent = isDark ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", isDark ? "Use the light theme" : "Use the dark theme");
  };
  themeButton.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("warpsmith-theme", chosen); } catch { /* it lasts for this visit */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  themeButton.hidden = false;
  showTheme();

  // --- the data ------------------------------------------------------------------------------

  const body = document.querySelector("#trial-table tbody");
  if (!body) return;
  const data = JSON.parse(byId("trials-data").textContent);
  const LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

  // The order is the one in which the trials were packed.
  const trials = data.rows.map((row) => {
    const [seq, kernel, params, fidelity, verdict, times, speedup, score, origin, source, builds,
      log, measurements, message, notes, id, seed, adopted, sameAs, wall] = row;
    return {
      seq, fidelity, verdict, times, speedup, score, source, builds, log, measurements, message,
      id, seed, adopted, sameAs, wall,
      kernel: data.words[kernel],
      params: params.map((word) => data.words[word]).join(" "),
      origin: data.words[origin],
      notes: notes.map((word) => data.words[word]),
    };
  });

  // --- numbers for people --------------------------------------------------------------------

  const digits = (value) => value.toFixed(Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);
  const time = (seconds) => {
    if (seconds === null || seconds === undefined) return "–";
    const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([u]) => seconds >= u) || [1e-9, "ns"];
    return `${digits(seconds / unit)} ${name}`;
  };
  const ratio = (value) => (value === null ? "–" : `${digits(value)}x`);

  // --- sorting and filtering -----------------------------------------------------------------

  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const keys = {
    0: (t) => t.seq, 1: (t) => t.kernel, 2: (t) => t.params, 3: (t) => t.fidelity,
    4: (t) => t.verdict, 6: (t) => t.speedup, 7: (t) => t.score,
  };
  data.workloads.forEach((_, idx) => { keys[`w${idx}`] = (t) => t.times[idx]; });

  const state = { sort: "0", descending: false, shown: [] };

  const compare = (a, b) => {
    const [x, y] = [keys[state.sort](a), keys[state.sort](b)];
    // What has no value comes last in both directions.
    if (x === null || y === null) return x === y ? a.seq - b.seq : x === null ? 1 : -1;
    const order = typeof x === "number" ? x - y : natural(x, y);
    return (state.descending ? -order : order) || a.seq - b.seq;
  };

  const searchText = (t) => {
    t.text ??= [t.kernel, t.params, t.fidelity, t.verdict, t.message, t.origin, t.id, ...t.notes]
      .join("\n").toLowerCase();
    return t.text;
  };

  const update = () => {
    const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const fidelity = byId("filter-fidelity").value;
    const verdict = byId("filter-verdict").value;
    state.shown = trials
      .filter((t) => !fidelity || t.fidelity === fidelity)
      .filter((t) => !verdict || t.verdict === verdict)
      .filter((t) => words.every((word) => searchText(t).includes(word)))
      .sort(compare);
    byId("trial-count").textContent = `${state.shown.length} of ${trials.length} shown`;
    body.replaceChildren();
    byId("trial-box").scrollTop = 0;
    appendRows();
  };

  // --- rows, a few at a time -----------------------------------------------------------------

  const CHUNK = 100;
  let drawn = 0;
  const appendRows = () => {
    drawn = body.querySelectorAll("tr.trial").length;
    body.append(...state.shown.slice(drawn, drawn + CHUNK).map(row));
    drawn = Math.min(drawn + CHUNK, state.shown.length);
    byId("trial-more").hidden = drawn >= state.shown.length;
  };

  const row = (t) => {
    const open = make("button", { type: "button", "aria-expanded": "false", "aria-label": `Trial ${t.seq}, details` }, String(t.seq));
    const passed = t.verdict === "passed";
    const word = passed && t.score === null ? "abandoned" : t.verdict;
    const tr = make("tr", { class: "trial" },
      make("td", { class: "num" }, open),
      make("td", {}, t.kernel),
      make("td", { class: "params", title: t.params }, t.params || "–"),
      make("td", {}, t.fidelity),
      make("td", { title: t.message }, passed ? word : make("span", { class: "badge failed" }, word)),
      make("td", { class: "num" }, ratio(t.speedup)),
      make("td", { class: "num" }, time(t.score)),
      ...t.times.map((value) => make("td", { class: "num" }, time(value))));
    open.addEventListener("click", () => {
      const isOpen = open.getAttribute("aria-expanded") === "true";
      open.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) tr.nextElementSibling.remove();
      else tr.after(make("tr", { class: "detail" }, make("td", { colspan: String(7 + t.times.length) }, details(t))));
    });
    return tr;
  };

  // --- one trial in full ---------------------------------------------------------------------

  const details = (t) => {
    const box = make("div", { class: "detail-box" });
    box.style.setProperty("--box", `${byId("trial-box").clientWidth}px`);
    const facts = [`Trial ${t.id}`, t.origin, `seed ${t.seed}`, `${time(t.wall)} from request to answer`];
    if (t.adopted) facts.push("measured by an earlier run");
    if (t.sameAs) facts.push(`same binary as trial ${t.sameAs}, whose outcome it took over`);
    box.append(make("p", { class: "small" }, facts.join(" · ")), make("p", {}, t.message));
    if (t.params) box.append(make("p", { class: "params" }, t.params));
    if (t.notes.length) box.append(make("h4", {}, "Notes"), make("ul", {}, ...t.notes.map((note) => make("li", {}, note))));
    if (t.measurements.length) box.append(make("h4", {}, "Samples"), samples(t));
    t.builds.forEach((build) => box.append(...compiled(build)));
    if (t.log !== null) box.append(make("h4", {}, "Compiler’s messages"), text(t.log));
    box.append(make("h4", {}, `Source ${data.texts[t.source][0]}`), text(t.source, "source"));
    return box;
  };

  const text = (number, name = "log") => {
    const [hash, content] = data.texts[number];
    if (content === null) return make("p", { class: "empty" }, `Text ${hash} is not in this page; the evidence has it.`);
    if (content === "") return make("p", { class: "empty" }, "Nothing.");
    return make("pre", { class: name, tabindex: "0" }, content);
  };

  const compiled = ([command, log, seconds, cached, binary]) => {
    const quoted = command.map((word) => data.words[word])
      .map((word) => (/^[\w\-./=+:@%,]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
    const how = cached ? "from the cache" : `in ${time(seconds)}`;
    const nodes = [make("h4", {}, `Build ${binary}, ${how}`), make("pre", { class: "command" }, quoted.join(" "))];
    if (data.texts[log][1] !== "") nodes.push(text(log));
    return nodes;
  };

  const samples = (t) => {
    const rows = t.measurements.map(([workload, low, high, strip, count, batch, element, norm, stop, share, aside]) => {
      const name = typeof workload === "number" ? data.workloads[workload] : workload;
      const extra = share !== 1 ? `, ${(share * 100).toFixed(0)} % of the blocks` : "";
      const value = (number) => (number === null ? "–" : digits(number));
      return make("tr", {},
        make("th", { scope: "row" }, name),
        make("td", {}, picture(strip, low, high)),
        make("td", { class: "num" }, `${time(low)} – ${time(high)}`),
        make("td", { class: "num" }, `${count} × ${batch}`),
        make("td", { class: "num" }, `${value(element)} / ${value(norm)}`),
        make("td", {}, stop + extra, ...(aside ? [make("span", { class: "sub" }, aside)] : [])));
    });
    const heads = ["Workload", "In the order taken", "Range", "Samples × launches", "Error, eps (element / norm)", "Timing ended"];
    return make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows)));
  };

  /** Draws samples as dots, in the order they were taken, between the least and the greatest. */
  const picture = (strip, low, high) => {
    const [width, height] = [150, 26];
    const namespace = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(namespace, "svg");
    for (const [key, value] of Object.entries({ class: "strip", width, height, role: "img", "aria-label": `Samples between ${time(low)} and ${time(high)}` })) svg.setAttribute(key, value);
    const path = document.createElementNS(namespace, "path");
    const points = [...strip].map((level, idx) => {
      const x = 3 + (strip.length > 1 ? (idx / (strip.length - 1)) * (width - 6) : (width - 6) / 2);
      const y = height - 4 - (LEVELS.indexOf(level) / (LEVELS.length - 1)) * (height - 8);
      return `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
    });
    path.setAttribute("class", "dots");
    path.setAttribute("d", points.join(""));
    svg.append(path);
    return svg;
  };

  // --- wiring --------------------------------------------------------------------------------

  const fill = (id, values) => byId(id).append(...[...new Set(values)].sort().map((value) => make("option", { value }, value)));
  fill("filter-fidelity", trials.map((t) => t.fidelity));
  fill("filter-verdict", trials.map((t) => t.verdict));
  let pending = 0;
  byId("filter-text").addEventListener("input", () => { clearTimeout(pending); pending = setTimeout(update, 80); });
  byId("filter-fidelity").addEventListener("change", update);
  byId("filter-verdict").addEventListener("change", update);
  document.querySelectorAll("#trial-table [data-sort]").forEach((button) => {
    button.addEventListener("click", () => {
      const sort = button.dataset.sort;
      state.descending = state.sort === sort ? !state.descending : sort === "6";
      state.sort = sort;
      document.querySelectorAll("#trial-table th").forEach((th) => th.setAttribute("aria-sort", "none"));
      button.parentElement.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      update();
    });
  });
  byId("trial-more").addEventListener("click", appendRows);
  byId("trial-box").addEventListener("scroll", () => {
    const box = byId("trial-box");
    if (box.scrollTop + box.clientHeight > box.scrollHeight - 400 && drawn < state.shown.length) appendRows();
  }, { passive: true });
  byId("trial-controls").hidden = false;
  byId("trial-box").hidden = false;
  update();
})();
