/* The panel around Im2colRunner.run: a button, how far it is, and a table of what came of it.
   What comes from goldens and from the browser goes in as text only. */

Im2colRunner.mount = (() => {
  "use strict";

  // The gravest first.
  const ORDER = ["failed", "not run", "passed", "skipped"];

  const COLUMNS = ["result", "golden", "cases", "worst ULP", "of allowed", "where", "why"];

  /** An element with properties, or attributes where the name has a dash, and children. */
  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.includes("-") || name === "role") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }

  /** Builds the panel into the container, for the page's data. */
  function mount(container, data) {
    const start = element("button", { type: "button", className: "run-start" }, "Run on this GPU");
    const cancel = element("button", { type: "button", className: "run-cancel", disabled: true }, "Cancel");
    const bar = element("progress", { className: "run-progress", max: 1, value: 0, "aria-label": "cases run" });
    const now = element("span", { className: "run-now" });
    const state = element("p", { className: "run-state", role: "status", "aria-live": "polite" });
    const output = element("div", { className: "run-output", hidden: true });
    const show = element("div", { className: "run-going", hidden: true }, bar, now);
    container.append(element("div", { className: "run-controls" }, start, cancel), show, state, output);

    let controller = null;
    cancel.addEventListener("click", () => controller?.abort());
    start.addEventListener("click", async () => {
      controller = new AbortController();
      [start.disabled, cancel.disabled, show.hidden, output.hidden] = [true, false, false, true];
      cancel.focus();
      state.textContent = `Running ${counted(data.goldens.length, "golden")}.`;
      const result = await Im2colRunner.run(data, {
        signal: controller.signal,
        onProgress: (progress) => showProgress(bar, now, progress),
      });
      const hadFocus = document.activeElement === cancel;
      [start.disabled, cancel.disabled, show.hidden, output.hidden] = [false, true, true, false];
      start.textContent = "Run again";
      if (hadFocus) start.focus();
      state.textContent = summary(result);
      output.replaceChildren(facts(result), keeping(result, state), table(result));
    });
  }

  function showProgress(bar, now, { done, total, variant, case: name }) {
    [bar.max, bar.value] = [total || 1, done];
    now.textContent = `${done} of ${counted(total, "case")}${variant ? `: ${variant}, ${name}` : ""}`;
  }

  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  /** Counts, the worst error, and why goldens were left out: each reason once. */
  function summary({ counts, variants }) {
    const parts = Object.entries(counts).map(([status, count]) => `${count} ${status}`);
    const worst = variants.filter((row) => row.worst).sort(byShare)[0]?.worst;
    const lines = [`${parts.join(", ")}.`];
    if (worst) lines.push(`Worst error ${inUlps(worst)}.`);
    for (const status of ["not run", "skipped"]) {
      const reasons = variants.filter((row) => row.status === status).map((row) => row.reason);
      for (const reason of new Set(reasons)) lines.push(`${capital(status)}: ${reason}.`);
    }
    return lines.join(" ");
  }

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  const inUlps = (worst) => `${short(worst.ulp)} ULP of ${short(worst.bound)} allowed`;

  /** A number of the result, which may be "nan", "inf" or "-inf", in few digits. */
  const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(3))) : value);

  const shareOf = ({ worst }) => (worst ? (worst.ulp === "inf" ? Infinity : worst.ulp / worst.bound) : -1);

  const byShare = (a, b) => shareOf(b) - shareOf(a) || 0;

  function facts({ adapter, browser, features }) {
    const named = adapter
      ? [adapter.description, adapter.vendor, adapter.architecture, adapter.device].filter(Boolean)
      : ["none"];
    const list = [
      ["adapter", named.join(", ") || "gives no name"],
      ["browser", browser],
      ["features", features.join(", ") || "none"],
    ];
    const rows = list.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    return element("dl", { className: "run-facts" }, ...rows);
  }

  function table({ variants }) {
    const rank = ({ status }) => ORDER.indexOf(status);
    const sorted = [...variants].sort((a, b) => rank(a) - rank(b) || byShare(a, b));
    const heads = COLUMNS.map((name) => element("th", { scope: "col" }, name));
    const made = element(
      "table",
      { className: "run-table" },
      element("caption", {}, "Each golden on this GPU, failures first"),
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...sorted.map(line)),
    );
    const region = { role: "region", "aria-label": "results", tabIndex: 0, className: "run-scroll" };
    return element("div", region, made);
  }

  function line(row) {
    const { status, variant, cases, worst, reason } = row;
    const share = shareOf(row);
    const where = worst ? `${worst.case} [${worst.at.join(", ")}]` : "";
    const cells = [
      cases || "",
      worst ? short(worst.ulp) : "",
      Number.isFinite(share) && share >= 0 ? `${Math.round(100 * share)} %` : "",
      worst && status === "failed" ? `${where}: ${short(worst.got)}, not ${short(worst.reference)}` : where,
      reason,
    ];
    return element(
      "tr",
      { className: `run-row run-${status.replace(" ", "-")}` },
      element("td", { className: "run-status" }, status),
      element("th", { scope: "row" }, variant),
      ...cells.map((text) => element("td", {}, String(text))),
    );
  }

  // ---- Keeping the result

  function keeping(result, state) {
    const text = `${JSON.stringify(result, null, 1)}\n`;
    const copy = element("button", { type: "button", className: "run-copy" }, "Copy JSON");
    const save = element("button", { type: "button", className: "run-save" }, "Save JSON");
    const area = element("textarea", { className: "run-json", readOnly: true, hidden: true, "aria-label": "result as JSON" });
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        state.textContent = "The result is copied.";
      } catch {
        [area.value, area.hidden] = [text, false];
        area.focus();
        area.select();
        state.textContent = "The browser does not let the page copy: the result is selected below.";
      }
    });
    save.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      element("a", { href: address, download: `im2col-${result.date}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    });
    return element("div", { className: "run-keep" }, copy, save, area);
  }

  return mount;
})();
