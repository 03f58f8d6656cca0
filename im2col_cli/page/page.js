"use strict";
// The page as a whole: the open golden and what is around it, copying, keys, the theme.
(() => {
  const { make } = Im2colGolden;
  const { VIEWS, data, goldens, gone, fate, state, address } = Im2colModel;
  const byId = (id) => document.getElementById(id);
  const narrow = matchMedia("(max-width: 900px)");

  // ---- One golden ----

  function showGolden({ golden, other, view }) {
    const article = byId("golden");
    article.setAttribute("aria-label", golden.record.variant);
    article.replaceChildren(
      make("a", { class: "back", href: "#goldens" }, "← all goldens"),
      make("h2", {}, golden.record.variant),
      make("p", { class: "dim" }, about(golden)),
      controls(golden, other, view),
      tabs(golden.record.variant, other, view),
      content(golden, other, view)
    );
  }

  function about(golden) {
    const { activation, features } = golden.record;
    const { formula } = data.activations[activation.name];
    const slots = activation.parameters.map((slot) => slot.name).join(", ");
    return [
      `${activation.operator || "no activation"}, kind ${activation.kind}: ${formula}`,
      ...(slots ? [`slots ${slots}`] : []),
      `${golden.lines.length - 1} lines`,
      ...(features.length ? [`needs ${features.join(", ")}`] : []),
    ].join(" · ");
  }

  function controls(golden, other, view) {
    const name = golden.record.variant;
    const copy = make("button", { type: "button", id: "copy" }, "Copy WGSL");
    copy.addEventListener("click", () => copyText(Im2colModel.text(golden), copy));
    const choice = make("select", { id: "with" }, choices(name));
    choice.value = other ? other.key : "";
    choice.addEventListener("change", () => (location.hash = address(name, choice.value)));
    const canSwap = other && goldens.has(other.key);
    const swap = canSwap ? make("a", { href: address(other.key, name, view) }, "Swap") : null;
    const label = make("label", {}, "Compare with ", choice);
    return make("div", { class: "controls" }, copy, label, swap);
  }

  // What the golden can be compared with: itself at the base, goldens that are gone, all others.
  function choices(name) {
    const option = (value, label) => make("option", { value }, label);
    const group = (label, options) =>
      options.length ? make("optgroup", { label }, options) : null;
    const structures = new Map();
    for (const other of goldens.keys()) {
      const structure = other.split("/")[0];
      if (!structures.has(structure)) structures.set(structure, []);
      if (other !== name) structures.get(structure).push(option(other, other));
    }
    return [
      option("", "nothing"),
      data.base ? option("base", `itself at ${data.base.revision}`) : null,
      group(`only at ${data.base?.revision}`, gone.map((other) => option(`base:${other}`, other))),
      [...structures].map(([structure, options]) => group(structure, options)),
    ];
  }

  function tabs(name, other, view) {
    const labels = [other ? "Differences" : "WGSL", "Interface", "Activation"];
    const links = VIEWS.map((key, index) => {
      const href = address(name, other?.key, key);
      return make("a", { href, "aria-current": key === view ? "page" : null }, labels[index]);
    });
    return make("nav", { class: "tabs", "aria-label": "Views of this golden" }, links);
  }

  function content(golden, other, view) {
    if (view === "interface") return Im2colGolden.interface(data, golden);
    if (view === "activation") return plots(golden.record.activation.name);
    if (!other) return Im2colGolden.code(data, golden, Im2colFinder.hits());
    if (!other.golden) {
      const words = `New: there is no ${other.label}.`;
      const code = Im2colGolden.code(data, golden, Im2colFinder.hits());
      return make("div", {}, make("p", { class: "notice" }, words), code);
    }
    const sides = make(
      "p",
      { class: "sides" },
      make("span", { class: "less" }, `− ${other.label}`),
      make("span", { class: "more" }, `+ ${golden.record.variant}`)
    );
    const shown = Im2colGolden.comparison(data, other.golden, golden, narrow.matches);
    return make("div", {}, sides, shown);
  }

  function plots(name) {
    const drawn = document.querySelector(`#activation-${name} .plots`);
    const missing = `There is no plot of ${name}. ${byId("figures-note").textContent}`;
    return drawn ? drawn.cloneNode(true) : make("p", { class: "notice" }, missing);
  }

  // ---- Copying ----

  async function copyText(text, button) {
    const isCopied = await copyByClipboard(text);
    const words = isCopied ? "Copied" : "Not allowed: select the code and copy that";
    byId("said").textContent = words;
    button.textContent = words;
    setTimeout(() => (button.textContent = "Copy WGSL"), 2000);
  }

  async function copyByClipboard(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyBySelection(text);
    }
  }

  // Where the clipboard is refused or not there: what browsers had before it.
  function copyBySelection(text) {
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  }

  // ---- Against the base ----

  function showAgainst() {
    const of = (kind) => [...goldens.keys()].filter((name) => fate(goldens.get(name)) === kind);
    const link = (name) => make("a", { href: address(name, "base") }, name);
    const group = (title, items) =>
      items.length
        ? [
            make("h4", {}, `${title}: ${items.length}`),
            make("ul", { class: "names" }, items.map((item) => make("li", {}, item))),
          ]
        : [];
    byId("against")?.append(
      make("p", {}, `${of("").length} of ${goldens.size} are the same.`),
      ...group("Changed", of("changed").map(link)),
      ...group("New", of("new").map(link)),
      ...group("Gone", gone)
    );
  }

  // ---- Theme ----

  const THEMES = ["system", "light", "dark"];
  const KEY = "im2col-theme";

  // A page opened from a file may have no storage: then the choice lasts as long as the page.
  function stored(access) {
    try {
      return access(localStorage);
    } catch {
      return null;
    }
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
  }

  byId("theme").addEventListener("click", () => {
    const now = THEMES.indexOf(document.documentElement.dataset.theme);
    const next = THEMES[(now + 1) % THEMES.length];
    setTheme(next);
    stored((storage) => storage.setItem(KEY, next));
  });

  // ---- Keys ----

  function onEscape() {
    const { golden, other, view } = state();
    const { search } = Im2colFinder;
    if (document.activeElement === search && search.value) Im2colFinder.clear();
    else if (other) location.hash = address(golden.record.variant, "", view);
    else if (golden && narrow.matches) location.hash = "#goldens";
    else Im2colFinder.move(0);
  }

  // What a key does where the focus is; undefined where that is none of our business.
  function actionOf(key, target) {
    const { search, list, move, openFirst } = Im2colFinder;
    const arrows = { ArrowDown: () => move(1), ArrowUp: () => move(-1) };
    const everywhere = { Escape: onEscape };
    if (target === search) return { ...everywhere, ...arrows, Enter: openFirst }[key];
    if (target.matches("input[type=text], input[type=number], select, textarea")) {
      return everywhere[key];
    }
    const letters = { "/": () => search.select(), j: () => move(1), k: () => move(-1) };
    return { ...everywhere, ...letters, ...(list.contains(target) ? arrows : {}) }[key];
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || state().part !== "goldens") return;
    const action = actionOf(event.key, event.target);
    if (!action) return;
    event.preventDefault();
    action();
  });

  // ---- All of it ----

  function show() {
    const now = state();
    for (const part of document.querySelectorAll(".part")) part.hidden = part.id !== now.part;
    for (const link of document.querySelectorAll(".top nav a")) {
      if (link.hash === `#${now.part}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    byId("goldens").classList.toggle("open", Boolean(now.golden));
    if (now.golden) showGolden(now);
    Im2colFinder.markOpen();
    document.title = now.golden ? `${now.golden.record.variant} · im2col` : "im2col goldens";
    follow(now.golden?.record.variant);
  }

  // Another golden begins at its top. Where it hides the list, or the reverse, so goes the focus.
  function follow(name) {
    if (name === opened) return;
    scrollTo(0, 0);
    if (narrow.matches && name) byId("golden").focus({ preventScroll: true });
    if (narrow.matches && !name) Im2colFinder.focusOn(opened);
    opened = name;
  }

  let opened = state().golden?.record.variant;
  const remembered = stored((storage) => storage.getItem(KEY));
  setTheme(THEMES.includes(remembered) ? remembered : THEMES[0]);
  byId("filters").open = !narrow.matches;
  Im2colFinder.show();
  showAgainst();
  show();
  addEventListener("hashchange", show);
  narrow.addEventListener("change", show);

  addEventListener("DOMContentLoaded", () => {
    if (!data.run) return;
    const panel = byId("run-panel");
    panel.replaceChildren();
    window.Im2colRunner.mount(panel, data);
  });
})();
