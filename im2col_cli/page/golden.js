"use strict";
// The views of one golden: its code, a comparison, its interface. They build elements from data,
// and know nothing of addresses and keys.
const Im2colGolden = (() => {
  const CONTEXT = 3; // equal lines to show around a change

  // An element with attributes and children; strings become text, never markup.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null) element.setAttribute(name, value);
    }
    element.append(...children.flat(2).filter((child) => child !== null));
    return element;
  }

  // What is too wide scrolls in a box of its own, by keys too.
  const scroller = (label, ...children) =>
    make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": label }, children);

  const numberOf = (index) =>
    make("td", { class: "number", "data-number": index < 0 ? "" : index + 1 });

  // A line of WGSL; its markup was made, and its text escaped, where the page was made.
  function lineOf(data, index, kind) {
    const cell = make("td", { class: `code ${kind}`.trim() });
    cell.innerHTML = data.html[index];
    return cell;
  }

  // ---- Code ----

  function code(data, golden, isHit) {
    const lines = golden.lines.slice(0, -1); // the last is what follows the final newline
    const rows = lines.map((index, number) => {
      const kind = isHit(data.lines[index]) ? "hit" : null;
      return make("tr", { class: kind }, numberOf(number), lineOf(data, index, ""));
    });
    return scroller("WGSL", make("table", { class: "wgsl" }, make("tbody", {}, rows)));
  }

  // ---- Comparison ----

  function comparison(data, left, right, isNarrow) {
    const rows = Im2colDiff.rows(left.lines, right.lines);
    const changed = rows.filter((row) => !row.same);
    const summary = make("p", { class: "summary" }, countOf(changed), interfaceWords(left, right));
    if (!changed.length) return summary;
    const drawn = isNarrow ? unifiedRows : sideRows;
    const widths = isNarrow ? ["n", "n", ""] : ["n", "", "n", ""];
    const table = make(
      "table",
      { class: isNarrow ? "diff unified" : "diff side" },
      make("colgroup", {}, widths.map((name) => make("col", { class: name })))
    );
    for (const run of Im2colDiff.runs(rows, CONTEXT)) {
      const unfolded = () => drawn(run, cellsOf(data, left, right, run));
      const { length } = run.rows;
      table.append(run.folded ? folded(length, widths.length, unfolded) : body(unfolded()));
    }
    return make("div", {}, summary, scroller("Differences", table));
  }

  const body = (rows) => make("tbody", {}, rows);

  function countOf(changed) {
    const count = (side) => changed.filter((row) => row[side] >= 0).length;
    if (!changed.length) return "The texts are the same, byte for byte; ";
    const less = make("span", { class: "less" }, `−${count("left")}`);
    return [less, " ", make("span", { class: "more" }, `+${count("right")}`), " lines; "];
  }

  // Fields of the manifest that differ, but for those that name the golden or its text.
  function interfaceWords({ record: left }, { record: right }) {
    const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
    for (const key of ["variant", "file", "sha256"]) keys.delete(key);
    const differing = [...keys].filter(
      (key) => JSON.stringify(left[key]) !== JSON.stringify(right[key])
    );
    if (!differing.length) return "same interface";
    return `interface differs in ${differing.join(", ").replaceAll("_", " ")}`;
  }

  function folded(count, columns, unfolded) {
    const button = make("button", { type: "button", class: "fold" }, `${count} equal lines`);
    const rows = body(make("tr", {}, make("td", { colspan: columns }, button)));
    button.addEventListener("click", () => rows.replaceChildren(...unfolded()));
    return rows;
  }

  // For each row the line on either side, null where there is none; what changed in it is marked.
  function cellsOf(data, left, right, run) {
    const cell = (golden, index, kind) =>
      index < 0 ? null : lineOf(data, golden.lines[index], run.same ? "" : kind);
    return run.rows.map((row) => {
      const before = cell(left, row.left, "removed");
      const after = cell(right, row.right, "added");
      if (!run.same && before && after) markWords(before, after);
      return { before, after };
    });
  }

  function sideRows(run, cells) {
    const nothing = () => make("td", { class: "nothing" });
    return run.rows.map(({ left, right }, index) => {
      const { before, after } = cells[index];
      const leftCells = [numberOf(left), before ?? nothing()];
      return make("tr", {}, leftCells, numberOf(right), after ?? nothing());
    });
  }

  // Of a changed run what was removed, then what was added.
  function unifiedRows(run, cells) {
    const line = (left, right, cell) => make("tr", {}, numberOf(left), numberOf(right), cell);
    if (run.same) {
      return run.rows.map(({ left, right }, index) => line(left, right, cells[index].after));
    }
    const removed = run.rows.map(({ left }, index) => [left, -1, cells[index].before]);
    const added = run.rows.map(({ right }, index) => [-1, right, cells[index].after]);
    return [...removed, ...added].filter(([, , cell]) => cell).map((row) => line(...row));
  }

  function markWords(before, after) {
    const ranges = Im2colDiff.words(before.textContent, after.textContent);
    mark(before, ranges.left);
    mark(after, ranges.right);
  }

  // Wraps ranges of the element's characters in <mark>, whatever elements they cross.
  function mark(element, ranges) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    let offset = 0;
    for (const node of nodes) {
      const start = offset;
      offset += node.length;
      for (const [from, to] of [...ranges].reverse()) {
        if (to > start && from < offset) wrap(node, Math.max(from - start, 0), to - start);
      }
    }
  }

  function wrap(node, from, to) {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, Math.min(to, node.length));
    range.surroundContents(make("mark"));
  }

  // ---- Interface ----

  function interface_(data, golden) {
    const { record } = golden;
    return make(
      "div",
      { class: "interface" },
      make("section", {}, make("h3", {}, "Pipeline"), facts(record)),
      make("section", {}, make("h3", {}, "Bindings of group 0"), bindings(record)),
      record.constants.length
        ? make(
            "section",
            { class: "wide" },
            make("h3", {}, "Constants of the pipeline: u32"),
            constants(data, record)
          )
        : null,
      make(
        "section",
        { class: "wide" },
        make("h3", {}, `Uniforms: ${record.uniforms.size} bytes`),
        uniforms(data, record)
      )
    );
  }

  function facts(record) {
    const { activation, tile } = record;
    const steps = tile.k ? `, k in steps of ${tile.k}` : "";
    const code = (text) => make("code", {}, text);
    const rows = [
      ["kernel", record.family],
      ["entry point", code(record.entry_point)],
      ["workgroup size", record.workgroup_size.map(factor).join(" × ")],
      ["tile", `m ${tile.m}, n ${tile.n}${steps}`],
      ["weight layout", code(record.weight_layout)],
      ["features", record.features.join(", ") || "none"],
      ["activation", `${activation.name}, kind ${activation.kind}`],
      ["slots", activation.parameters.map(slot).join("; ") || "none"],
      ["cache key", code(record.cache_key)],
      ["file", code(record.file)],
      ["SHA-256", code(record.sha256)],
    ];
    const fact = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
    return make("dl", { class: "facts" }, rows.map(fact));
  }

  // A number, or a product with a constant.
  const factor = (size) =>
    typeof size === "number" ? String(size) : `(${size.replaceAll("*", "×")})`;

  const slot = ({ name, default: value }, index) =>
    `${index}: ${name}, by default ${Number(value.toPrecision(7))}`;

  const bindings = (record) =>
    table(
      "Bindings",
      ["binding", "name", "type", "WGSL type"],
      record.bindings.map((entry) => [entry.binding, entry.name, entry.type, entry.wgsl_type])
    );

  const constants = (data, record) =>
    table(
      "Constants",
      ["name", "meaning"],
      record.constants.map((name) => [name, data.meanings[name] ?? ""])
    );

  function table(label, columns, rows) {
    const head = columns.map((name) => make("th", { scope: "col" }, name));
    const cell = (value) => make("td", {}, make("code", {}, String(value)));
    const lines = rows.map((row) => make("tr", {}, row.map(cell)));
    const whole = [make("thead", {}, make("tr", {}, head)), make("tbody", {}, lines)];
    return scroller(label, make("table", { class: "plain" }, whole));
  }

  // The struct drawn to scale, a row 16 bytes and a column one, and the same as a table.
  function uniforms(data, record) {
    const pieces = piecesOf(record.uniforms);
    const meaning = ({ name }) => {
      const number = name.match(/^activation_param_(\d+)$/)?.[1];
      return number ? record.activation.parameters[number].name : (data.meanings[name] ?? "");
    };
    const label = "Uniform struct in rows of 16 bytes; the table below says the same";
    const attributes = { class: "layout", role: "img", "aria-label": label };
    const drawn = make("div", attributes, pieces.map(drawnPiece));
    const rows = pieces.map((piece) => [
      ...[piece.offset, piece.size, piece.type, piece.name],
      meaning(piece),
    ]);
    const columns = ["offset", "bytes", "type", "name", "meaning"];
    return [scroller("Uniform layout", drawn), table("Uniform fields", columns, rows)];
  }

  function drawnPiece({ name, offset, size, isHole }) {
    const bytes = `${name}: bytes ${offset} to ${offset + size - 1}`;
    const cell = make(
      "div",
      { class: isHole ? "hole" : "field", title: bytes },
      make("span", { class: "offset" }, String(offset)),
      make("span", { class: "name" }, name)
    );
    cell.style.gridRow = Math.floor(offset / 16) + 1;
    cell.style.gridColumn = `${(offset % 16) + 1} / span ${size}`;
    return cell;
  }

  // Fields, and the holes between and behind them; none crosses a row of 16 bytes.
  function piecesOf({ size, fields }) {
    const pieces = [];
    let end = 0;
    const padUpTo = (offset) => {
      while (end < offset) {
        const next = Math.min(offset, (Math.floor(end / 16) + 1) * 16);
        pieces.push({ name: "padding", type: "", offset: end, size: next - end, isHole: true });
        end = next;
      }
    };
    for (const { name, type, offset } of fields) {
      padUpTo(offset);
      const values = Number(type.match(/^vec(\d)/)?.[1] ?? 1);
      pieces.push({ name, type, offset, size: 4 * values, isHole: false });
      end = offset + 4 * values;
    }
    padUpTo(size);
    return pieces;
  }

  return { make, code, comparison, interface: interface_ };
})();
