/* The panel around Im2colRunner.run: a button, how far it is, and a table of what came of it.
   What comes from goldens and from the browser goes in as text only. */

Im2colRunner.mount = (() => {
  "use strict";

  const BUTTON = "Run on this GPU";

  const INTRODUCTION =
    "Compiles every golden that this browser and its adapter allow, executes it on the" +
    " convolutions of im2col parity, and compares each result with double precision. It takes a" +
    " minute or so on a GPU, several without one. Nothing leaves this page.";

  // The gravest first.
  const ORDER = ["failed", "not run", "passed", "skipped"];

  const COLUMNS = ["result", "golden", "cases", "worst ULP", "of allowed", "why, and where"];

  // Bounds in ULP below this allow for a flush to zero alone.
  const LEAST_BOUND = 1e-6;

  // A larger share of what is allowed is not told apart.
  const MOST_SHARE = 10;

  /** An element with children and properties; attributes where the name has a dash or is a role. */
  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.includes("-") || name === "role") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }

  const button = (name, label, onClick) => {
    const made = element("button", { type: "button", className: `run-${name}` }, label);
    made.addEventListener("click", onClick);
    return made;
  };

  /** Builds the panel into the container, for the page's data. */
  function mount(container, data) {
    let controller = null;
    const start = button("start", BUTTON, async () => {
      controller = new AbortController();
      setRunning(true);
      cancel.focus();
      say(`Running ${counted(data.goldens.length, "golden")}.`);
      const { signal } = controller;
      const result = await Im2colRunner.run(data, { signal, onProgress: progress.show });
      const hadFocus = document.activeElement === cancel;
      setRunning(false);
      if (hadFocus) start.focus();
      start.textContent = "Run again";
      say(summary(result));
      output.replaceChildren(facts(result), keeping(result, say), table(result));
    });
    const cancel = button("cancel", "Cancel", () => controller.abort());
    const progress = progressBar();
    const state = element("p", { className: "run-state", role: "status", "aria-live": "polite" });
    const output = element("div", { className: "run-output" });

    const say = (text) => (state.textContent = text);
    const setRunning = (is) => {
      start.disabled = output.hidden = is;
      cancel.disabled = progress.element.hidden = !is;
    };
    setRunning(false);
    container.replaceChildren(
      element("p", {}, INTRODUCTION),
      element("div", { className: "run-bar" }, start, cancel),
      progress.element,
      state,
      output,
    );
  }

  function progressBar() {
    const bar = element("progress", { className: "run-progress", "aria-label": "cases run" });
    const now = element("span", { className: "run-now" });
    const show = ({ done, total, variant, case: name }) => {
      [bar.max, bar.value] = [total || 1, done];
      const at = variant ? `: ${variant}, ${name}` : "";
      now.textContent = `${done} of ${counted(total, "case")}${at}`;
    };
    return { element: element("div", { className: "run-bar" }, bar, now), show };
  }

  // ---- What came of it

  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  /** A number of the result, in few digits; what JSON has no number for is a string there. */
  const short = (value) =>
    typeof value === "number" ? String(Number(value.toPrecision(4))) : value;

  /** The worst error of a row as a share of what is allowed; -1 where there is none. */
  function shareOf({ worst }) {
    if (!worst) return -1;
    return worst.ulp === "inf" ? Infinity : worst.ulp / worst.bound;
  }

  const gravestFirst = (a, b) =>
    ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || shareOf(b) - shareOf(a) || 0;

  /** Counts, the error that is closest to its bound, and each reason why goldens were left out, once. */
  function summary({ counts, variants }) {
    const parts = Object.entries(counts).map(([status, count]) => `${count} ${status}`);
    const lines = [`${parts.join(", ")}.`];
    const closest = [...variants].sort(gravestFirst).find((row) => row.worst);
    if (closest) {
      const { ulp, bound } = closest.worst;
      const ulps = bound < LEAST_BOUND ? short(ulp) : `${short(ulp)} of ${short(bound)}`;
      lines.push(`Closest to its bound: ${ulps} ULP (${percent(shareOf(closest))}).`);
    }
    for (const [status, title] of [["not run", "Not run"], ["skipped", "Skipped"]]) {
      const left = variants.filter((row) => row.status === status);
      const reasons = new Set(left.map(({ reason }) => `${title}: ${reason.replace(/\.$/, "")}.`));
      lines.push(...reasons);
    }
    return lines.join(" ");
  }

  function facts({ adapter, browser, features }) {
    const { description, vendor, architecture, device } = adapter ?? {};
    const named = [description, vendor, architecture, device].filter(Boolean).join(", ");
    const list = [
      ["adapter", adapter ? named || "it gives no name" : "none"],
      ["browser", browser],
      ["features", features.join(", ") || "none"],
    ];
    const rows = list.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)),
    );
    return element("dl", { className: "run-facts" }, ...rows);
  }

  function table({ variants }) {
    const heads = COLUMNS.map((name) => element("th", { scope: "col" }, name));
    const made = element(
      "table",
      { className: "run-table" },
      element("caption", {}, "Each golden on this adapter, failures first"),
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...[...variants].sort(gravestFirst).map(line)),
    );
    const region = { role: "region", "aria-label": "Results", tabIndex: 0 };
    return element("div", { className: "run-scroll", ...region }, made);
  }

  function line(row) {
    const { status, variant, cases, worst, reason } = row;
    const cells = [
      cases || "",
      worst ? short(worst.ulp) : "",
      worst ? percent(shareOf(row)) : "",
      [reason, worst && place(worst, status)].filter(Boolean).join("; "),
    ];
    return element(
      "tr",
      { className: `run-${status.replace(" ", "-")}` },
      element("td", {}, status),
      element("th", { scope: "row" }, variant),
      ...cells.map((text) => element("td", {}, String(text))),
    );
  }

  const percent = (share) =>
    share > MOST_SHARE ? `over ${100 * MOST_SHARE} %` : `${Math.round(100 * share)} %`;

  function place({ case: name, at, got, reference }, status) {
    const values = status === "failed" ? ` is ${short(got)}, not ${short(reference)}` : "";
    return `${name}, y[${at.join(", ")}]${values}`;
  }

  // ---- Keeping it

  function keeping(result, say) {
    const text = `${JSON.stringify(result, null, 1)}\n`;
    const area = element("textarea", { className: "run-json", "aria-label": "Result as JSON" });
    area.hidden = area.readOnly = true;
    const copy = button("copy", "Copy JSON", async () => {
      try {
        await navigator.clipboard.writeText(text);
        say("The result is copied.");
      } catch {
        [area.value, area.hidden] = [text, false];
        area.select();
        say("The browser does not let the page copy. The result is selected below.");
      }
    });
    const save = button("save", "Save JSON", () => {
      const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      element("a", { href: address, download: `im2col-${result.date}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    });
    return element("div", { className: "run-bar" }, copy, save, area);
  }

  return mount;
})();
