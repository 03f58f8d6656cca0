"use strict";
// Search, filters, and the list of what they find.
const Im2colFinder = (() => {
  const { make } = Im2colGolden;
  const { data, text, goldens, fate, state, address } = Im2colModel;
  const form = document.getElementById("finder");
  const search = document.getElementById("search");
  const list = document.getElementById("list");

  // A golden's value on each axis, as the form's fields have them.
  const AXES = {
    family: (record) => record.family,
    element_type: (record) => record.element_type,
    vec_size: (record) => String(record.vec_size),
    tile: (record) => record.tile.name,
    bias: ({ bindings }) => (bindings.some(({ name }) => name === "bias") ? "with" : "without"),
    activation: (record) => record.activation.name,
  };

  const haystacks = new Map();

  function haystack(golden) {
    if (!haystacks.has(golden)) {
      const { variant, activation } = golden.record;
      const { formula } = data.activations[activation.name];
      const all = [variant, activation.operator, formula, text(golden)].join("\n");
      haystacks.set(golden, all.toLowerCase());
    }
    return haystacks.get(golden);
  }

  const terms = () => search.value.toLowerCase().split(/\s+/).filter(Boolean);

  // Every term, and on every axis that is asked about one of the values.
  function found() {
    const wanted = terms();
    const fields = new FormData(form);
    const asked = Object.entries(AXES)
      .map(([axis, read]) => [fields.getAll(axis).filter(Boolean), read])
      .filter(([values]) => values.length);
    return data.goldens.filter(
      (golden) =>
        asked.every(([values, read]) => values.includes(read(golden.record))) &&
        (!fields.has("differs") || fate(golden)) &&
        wanted.every((term) => haystack(golden).includes(term))
    );
  }

  function show() {
    const items = found().map(item);
    list.replaceChildren(...items);
    document.getElementById("count").textContent = `${items.length} of ${goldens.size}`;
    markOpen();
  }

  function item(golden) {
    const [structure, activation] = golden.record.variant.split("/");
    const link = make(
      "a",
      { href: address(golden.record.variant), "data-name": golden.record.variant },
      make("span", { class: "dim" }, `${structure}/`),
      make("wbr"),
      make("b", {}, activation)
    );
    const badge = fate(golden);
    if (badge) link.append(" ", make("span", { class: `badge ${badge}` }, badge));
    return make("li", {}, link);
  }

  const links = () => [...list.querySelectorAll("a")];

  function markOpen() {
    const { golden } = state();
    for (const link of links()) {
      const isOpen = link.dataset.name === golden?.record.variant;
      if (!isOpen) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "page");
        bringIntoView(link);
      }
    }
  }

  // Within the list alone: scrollIntoView would move the page too.
  function bringIntoView(link) {
    const above = link.getBoundingClientRect().top - list.getBoundingClientRect().top;
    const below = above + link.offsetHeight - list.clientHeight;
    if (above < 0 || below > 0) list.scrollTop += above - list.clientHeight / 2;
  }

  // The focus, by so many goldens; at first to the open one, or the first.
  function move(step) {
    const all = links();
    const focused = all.indexOf(document.activeElement);
    const open = all.findIndex((link) => link.hasAttribute("aria-current"));
    const next = focused < 0 ? Math.max(open, 0) : focused + step;
    all[Math.max(0, Math.min(all.length - 1, next))]?.focus();
  }

  const focusOn = (name) => links().find((link) => link.dataset.name === name)?.focus();

  function clear() {
    search.value = "";
    show();
  }

  // Whether a line has what is searched for; terms of one letter would mark nearly all.
  function hits() {
    const wanted = terms().filter((term) => term.length > 1);
    return (line) => wanted.some((term) => line.toLowerCase().includes(term));
  }

  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());

  const openFirst = () => links()[0]?.click();

  return { search, list, show, markOpen, move, focusOn, clear, hits, openFirst };
})();
