/* "Run on this GPU": compiles and executes every golden that the adapter's features allow, on the
   cases of `im2col parity`, and compares with Im2colOracle. panel.js adds what one sees of it. */

globalThis.Im2colRunner = (() => {
  "use strict";

  const [FAILED, NOT_RUN, PASSED, SKIPPED] = ["failed", "not run", "passed", "skipped"];

  // Letters of a message that are kept.
  const MOST_LETTERS = 300;

  // Milliseconds that a failing device has to say that it is lost.
  const PATIENCE = 300;

  /** What ends the whole run: no device, a device that is lost, or the visitor. */
  class Halt extends Error {}

  // ---- The whole run

  /**
   * Runs the goldens of the page's data, and never rejects: what goes wrong is in the result.
   * `onProgress({done, total, variant, case})` is told of every case, `signal` ends the run.
   */
  async function run(data, { onProgress = () => {}, signal } = {}) {
    const rows = data.goldens.map(({ record }) => {
      const nothing = { reason: "", cases: 0, worst: null, wrong: 0, stray: 0 };
      return { variant: record.variant, status: NOT_RUN, ...nothing };
    });
    const result = {
      format: 1,
      tool: "im2col page",
      fingerprint: data.fingerprint,
      date: new Date().toISOString().slice(0, 10),
      browser: await browserName(),
      adapter: null,
      features: [],
      variants: rows,
    };
    let device = null;
    let why = "";
    try {
      const adapter = await findAdapter();
      result.adapter = description(adapter);
      result.features = [...adapter.features].sort();
      device = await openDevice(adapter, data);
      const halted = halting(device, signal);
      const hasMatrices = multiplies(adapter.info);
      await runAll({ data, device, hasMatrices, halted, memory: new Map() }, rows, onProgress);
    } catch (error) {
      why = inWords(error);
    } finally {
      device?.destroy();
    }
    for (const row of rows) if (row.status === NOT_RUN) row.reason = why;
    const count = (status) => rows.filter((row) => row.status === status).length;
    result.counts = Object.fromEntries(
      [PASSED, FAILED, SKIPPED, NOT_RUN].map((status) => [status, count(status)]),
    );
    return plain(result);
  }

  async function runAll(session, rows, onProgress) {
    const { data } = session;
    const able = [];
    data.goldens.forEach((golden, i) => {
      const lacks = lacking(session, golden.record);
      const reason = `needs ${lacks.join(", ")}, which this browser does not offer on this adapter`;
      if (lacks.length) Object.assign(rows[i], { status: SKIPPED, reason });
      else able.push({ golden, row: rows[i], cases: casesOf(golden.record, data.run) });
    });
    const total = able.reduce((sum, { cases }) => sum + cases.length, 0);
    let done = 0;
    for (const { golden, row, cases } of able) {
      const step = (at, c) =>
        onProgress({ done: done + at, total, variant: row.variant, case: c.name });
      Object.assign(row, await runGolden(session, golden, cases, step));
      done += cases.length;
    }
    onProgress({ done, total, variant: "", case: "" });
  }

  /** What a golden needs and the adapter has not: features, or matrices of a size. */
  function lacking({ device, hasMatrices }, { features, family }) {
    const lacks = features.filter((name) => !device.features.has(name));
    if (lacks.length || family !== "subgroup-matrix" || hasMatrices) return lacks;
    return ["subgroups of 32 with 16x16x16 matrices of f16 and sums in f32"];
  }

  /** A promise that rejects when the run must end, whatever else it waits for. */
  function halting(device, signal) {
    const halted = new Promise((_, reject) => {
      device.lost.then(({ reason, message }) =>
        reject(new Halt(`the device was lost: ${message || reason || "no reason was given"}`)),
      );
      const cancel = () => reject(new Halt("cancelled"));
      if (signal?.aborted) cancel();
      signal?.addEventListener("abort", cancel, { once: true });
    });
    halted.catch(() => {});
    return halted;
  }

  // ---- Browser, adapter, device

  async function browserName() {
    try {
      const told = await navigator.userAgentData.getHighEntropyValues(["fullVersionList"]);
      const brands = told.fullVersionList.filter(({ brand }) => !/not.*brand/i.test(brand));
      const { brand, version } = brands.find(({ brand }) => brand !== "Chromium") ?? brands[0];
      return `${brand} ${version} on ${told.platform}`;
    } catch {
      return fromUserAgent(navigator.userAgent);
    }
  }

  function fromUserAgent(agent) {
    const [, system = "an unknown system"] = /\(([^;)]+)/.exec(agent) ?? [];
    const found =
      /(Edg)\/([\d.]+)/.exec(agent) ??
      /(Firefox|Chrome)\/([\d.]+)/.exec(agent) ??
      /(Version)\/([\d.]+).*Safari/.exec(agent);
    if (!found) return cut(agent);
    const name = { Edg: "Edge", Version: "Safari" }[found[1]] ?? found[1];
    return `${name} ${found[2]} on ${system}`;
  }

  async function findAdapter() {
    if (!navigator.gpu) {
      throw new Halt(
        "this browser has no WebGPU: take a current Chrome, Edge, Firefox or Safari, and open the" +
          " page from a file or over https",
      );
    }
    const adapter = await navigator.gpu.requestAdapter();
    if (adapter) return adapter;
    throw new Halt(
      "this browser offers no WebGPU adapter: its settings may switch hardware acceleration off," +
        " or it may not trust the GPU's driver",
    );
  }

  function description({ info = {} }) {
    const { vendor = "", architecture = "", device = "", description = "" } = info;
    return { vendor, architecture, device, description };
  }

  /** Whether subgroups of 32 multiply 16x16 matrices of f16 and sum them up in f32, as far as the
      adapter tells: where it does not, the goldens that do so are run, to see. */
  function multiplies({ subgroupMatrixConfigs, subgroupMinSize, subgroupMaxSize } = {}) {
    const sizes = [subgroupMinSize, subgroupMaxSize];
    if (sizes.some((size) => size !== undefined && size !== 32)) return false;
    if (!subgroupMatrixConfigs) return true;
    return [...subgroupMatrixConfigs].some(
      ({ componentType, resultComponentType, M, N, K }) =>
        componentType === "f16" &&
        resultComponentType === "f32" &&
        [M, N, K].every((size) => size === 16),
    );
  }

  /** A device with those features of the goldens that the adapter has. */
  function openDevice(adapter, data) {
    const wanted = new Set(data.goldens.flatMap(({ record }) => record.features));
    const requiredFeatures = [...wanted].filter((name) => adapter.features.has(name));
    return adapter.requestDevice({ requiredFeatures });
  }

  // ---- One golden

  function casesOf({ variant, vec_size }, { cases, large, brief }) {
    const runs = brief.includes(variant)
      ? (c) => c.is_core
      : (c) => !c.once || large.includes(variant);
    return cases.filter((c) => c.vec_size === vec_size && runs(c));
  }

  /** What became of the golden, as fields of its row. Throws Halt. */
  async function runGolden(session, { record, lines }, cases, step) {
    const found = { status: PASSED, cases: 0, worst: null, wrong: 0, stray: 0 };
    const bad = [];
    try {
      const code = lines.map((index) => session.data.lines[index]).join("\n");
      step(0, cases[0]);
      const { device, data } = session;
      const pipelines = await guarded(session, () =>
        Im2colKernel.compile(device, record, code, cases, data.run),
      );
      for (const [at, c] of cases.entries()) {
        if (at) step(at, c);
        const { wrong, stray, worst } = await runCase(session, pipelines.get(c.name), record, c);
        found.cases += 1;
        found.wrong += wrong;
        found.stray += stray;
        if (!found.worst || share(worst) > share(found.worst)) found.worst = worst;
        if (wrong || stray) bad.push(c.name);
      }
    } catch (error) {
      if (error instanceof Halt) throw error;
      return { ...found, status: FAILED, reason: inWords(error) };
    }
    return bad.length ? { ...found, status: FAILED, reason: faults(found, bad) } : found;
  }

  const share = ({ ulp, bound }) => ulp / bound;

  function faults({ cases, wrong, stray }, bad) {
    const words = [];
    if (wrong) words.push(`${wrong} values wrong`);
    if (stray) words.push(`${stray} bytes written behind the end of y`);
    const others = bad.length > 3 ? `, and ${bad.length - 3} more` : "";
    return `${words.join(", ")}, in ${bad.slice(0, 3).join(", ")}${others} of ${cases} cases`;
  }

  /** The oracle works while the device does; what other goldens need again is kept. */
  async function runCase(session, pipeline, record, c) {
    const { data: { run }, device, memory } = session;
    const { element_type: type, activation, family } = record;
    const hasBias = record.bindings.some(({ name }) => name === "bias");
    const kept = (make, ...key) => {
      const name = [c.name, c.vec_size, ...key].join();
      if (!memory.has(name)) memory.set(name, make());
      return memory.get(name);
    };
    const tensors = kept(() => Im2colOracle.tensors(c));
    const inputs = kept(() => Im2colKernel.encoded(tensors, c, family, type), family, type);
    const output = guarded(session, () =>
      Im2colKernel.execute(device, pipeline, record, c, inputs, run),
    );
    const sums = kept(() => Im2colOracle.sums(c, tensors, hasBias, run), "sums", hasBias);
    const expected = kept(
      () => Im2colOracle.expected(c, sums, activation.name, type, run),
      ...[activation.name, type, hasBias],
    );
    const { got, stray } = await output;
    return { ...Im2colOracle.compare(c, got, expected, type, run), stray };
  }

  // ---- What can go wrong

  const SCOPES = {
    validation: "the browser refuses it",
    "out-of-memory": "out of memory",
    internal: "the driver fails",
  };

  /** The result of `work` on the device. Throws Refusal for what the browser says against it, and
      Halt as soon as the run must end. */
  async function guarded({ device, halted }, work) {
    const kinds = Object.keys(SCOPES);
    for (const kind of kinds) device.pushErrorScope(kind);
    const [done] = await Promise.race([Promise.allSettled([work()]), halted]);
    const scopes = kinds.toReversed().map((kind) => device.popErrorScope().then(
      (error) => (error ? `${SCOPES[kind]}: ${error.message}` : ""),
      () => "", // of a lost device
    ));
    const said = (await Promise.race([Promise.all(scopes), halted])).find(Boolean);
    if (done.status === "fulfilled" && !said) return done.value;
    if (done.reason instanceof Im2colKernel.Refusal) throw done.reason;
    if (said) throw new Im2colKernel.Refusal(said);
    // Work on a lost device fails first, and the device says that it is lost after that.
    await Promise.race([halted, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
    throw done.reason;
  }

  function inWords(error) {
    return cut(error.message || error.name || "unknown error");
  }

  function cut(text) {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length > MOST_LETTERS ? `${line.slice(0, MOST_LETTERS)}…` : line;
  }

  /** JSON has no infinity and no NaN: they become strings, as in the reports of `parity`. */
  function plain(value) {
    if (Array.isArray(value)) return value.map(plain);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
    }
    if (typeof value !== "number" || Number.isFinite(value)) return value;
    return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }

  return { run };
})();
