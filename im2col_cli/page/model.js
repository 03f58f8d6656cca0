"use strict";
// What the page knows: the data in it, and the address, which says what is shown, so that a link
// shows what its sender saw. Knows nothing of elements but the one that holds the data.
const Im2colModel = (() => {
  const data = JSON.parse(document.getElementById("im2col-data").textContent);
  const VIEWS = ["code", "interface", "activation"];

  const text = (golden) => golden.lines.map((index) => data.lines[index]).join("\n");
  const nameOf = (golden) => golden.record.variant;

  const goldens = new Map(data.goldens.map((golden) => [nameOf(golden), golden]));
  const base = new Map((data.base?.goldens ?? []).map((golden) => [nameOf(golden), golden]));
  const gone = [...base.keys()].filter((name) => !goldens.has(name));

  // What a golden is against the base: "new", "changed" or, where it is the same, "".
  function fate(golden) {
    if (!data.base) return "";
    const before = base.get(nameOf(golden));
    if (!before) return "new";
    return String(before.lines) === String(golden.lines) ? "" : "changed";
  }

  // {part}, and of the part "goldens" also {golden, other, view}; null where there is none.
  function state() {
    const hash = location.hash.slice(1);
    if (hash === "activations" || hash === "run") return { part: hash, golden: null };
    const asked = new URLSearchParams(hash);
    const golden = goldens.get(asked.get("golden")) ?? null;
    return {
      part: "goldens",
      golden,
      other: golden && partner(asked.get("with") ?? "", nameOf(golden)),
      view: VIEWS.find((view) => view === asked.get("view")) ?? VIEWS[0],
    };
  }

  // What a golden is compared with: {key, label, golden}, whose golden is null where it is new.
  function partner(key, name) {
    const [, isBase, another] = key.match(/^(base)(?::(.+))?$/) ?? [];
    if (isBase && data.base && (!another || base.has(another))) {
      const label = `${another ?? name} at ${data.base.revision}`;
      return { key, label, golden: base.get(another ?? name) ?? null };
    }
    return goldens.has(key) && key !== name ? { key, label: key, golden: goldens.get(key) } : null;
  }

  function address(name, key, view) {
    const parts = [`golden=${name}`];
    if (key) parts.push(`with=${encodeURIComponent(key).replaceAll("%2F", "/")}`);
    if (view && view !== VIEWS[0]) parts.push(`view=${view}`);
    return `#${parts.join("&")}`;
  }

  return { VIEWS, data, text, goldens, base, gone, fate, state, address };
})();

// For whoever wants the goldens out of the page.
window.im2colData = Im2colModel.data;
window.im2colText = Im2colModel.text;
