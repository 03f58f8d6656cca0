/* A golden as a compute pipeline: compiles it on a device and runs it on a case, as kernel.py does.
   The interface comes from the golden's record in the manifest. */

globalThis.Im2colKernel = (() => {
  "use strict";

  const { fromHalf, toHalf } = Im2colOracle;

  const bytesOf = (type) => (type === "f32" ? 4 : 2);

  /** What the browser says against a golden. */
  class Refusal extends Error {}

  /** The pipelines of a golden, by cases: where it has constants each is one of its own, and all are
      made at a time. Throws Refusal, with the line, where it does not compile. */
  async function compile(device, record, code, cases, run) {
    const module = device.createShaderModule({ label: record.variant, code });
    const { messages } = await module.getCompilationInfo();
    const error = messages.find(({ type }) => type === "error");
    if (error) throw new Refusal(`does not compile, line ${error.lineNum}: ${error.message}`);
    const layout = device.createBindGroupLayout({
      entries: record.bindings.map(({ binding, type }) => {
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
      }),
    });
    const made = new Map();
    const pipelineOf = (c) => {
      const { constants } = launch(record, c, run);
      const key = JSON.stringify(constants);
      if (!made.has(key)) {
        const pipeline = device.createComputePipelineAsync({
          label: record.variant,
          layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
          compute: { module, entryPoint: record.entry_point, constants },
        });
        made.set(key, pipeline);
      }
      return made.get(key);
    };
    const pipelines = await Promise.all(cases.map(pipelineOf));
    return new Map(cases.map((c, i) => [c.name, pipelines[i]]));
  }

  /** How a golden runs a case: the constants of its pipeline, and the number of workgroups. Where
      there are constants, im2col has chosen both. */
  function launch({ constants, element_type: type, vec_size: size, tile }, c, { launches }) {
    if (!constants.length) {
      const { m_tiles, n_tiles } = sizesOf(tile, c);
      return { constants: {}, workgroups: c.batch * m_tiles * n_tiles };
    }
    const [values, workgroups] = launches[`${type}-vec${size}-${tile.name}`][c.name];
    const named = constants.map((name, i) => [name, values[i]]);
    return { constants: Object.fromEntries(named), workgroups };
  }

  // ---- Inputs

  /** The weight [channel_o, kernel_h, kernel_w, channel_i] as kernels of a family read it: see
      packing.py. */
  const PACK = {
    im2col: (weight) => weight,
    registers: inColumns,
    "subgroup-matrix": inBlocks,
  };

  const wholes = (count, size) => Math.ceil(count / size);

  /** [kernel_h, kernel_w, channel_i, channel_o], with zeros up to whole vectors of four. */
  function inColumns(weight, { kernel_h, kernel_w, channel_i, channel_o }) {
    const k = kernel_h * kernel_w * channel_i;
    const n = 4 * wholes(channel_o, 4);
    const packed = new Float64Array(k * n);
    weight.forEach((value, i) => (packed[(i % k) * n + Math.floor(i / k)] = value));
    return packed;
  }

  /** [channel_o / 16, kernel_h, kernel_w, channel_i / 16, 16, 16]: output channels, then input
      channels within a block; with zeros up to whole blocks. */
  function inBlocks(weight, { kernel_h, kernel_w, channel_i, channel_o }) {
    const positions = kernel_h * kernel_w;
    const blocks = wholes(channel_i, 16);
    const packed = new Float64Array(wholes(channel_o, 16) * positions * blocks * 256);
    weight.forEach((value, i) => {
      const channel = i % channel_i;
      const position = Math.floor(i / channel_i) % positions;
      const n = Math.floor(i / (channel_i * positions));
      const row = Math.floor(n / 16) * positions + position;
      const block = row * blocks + Math.floor(channel / 16);
      packed[block * 256 + (n % 16) * 16 + (channel % 16)] = value;
    });
    return packed;
  }

  /** The tensors of a case, the weight packed for the family, as bytes of the element type: in
      whole words, as WebGPU wants them. */
  function encoded({ x, weight, bias }, c, family, type) {
    const packed = { x, weight: PACK[family](weight, c), bias };
    const encode = (values) => {
      if (type === "f32") return new Uint8Array(new Float32Array(values).buffer);
      const halves = new Uint16Array(values.length + (values.length % 2));
      values.forEach((value, i) => (halves[i] = toHalf(value)));
      return new Uint8Array(halves.buffer);
    };
    const entries = Object.entries(packed).map(([name, values]) => [name, encode(values)]);
    return Object.fromEntries(entries);
  }

  // ---- Running

  /** `got`, the values of y, NaN where nothing was written; `stray`, the bytes that were written
      behind its end. `inputs` are from `encoded`, `run` is that of the page's data. */
  async function execute(device, pipeline, record, c, inputs, run) {
    const count = c.batch * c.output_h * c.output_w * c.channel_o;
    const size = count * bytesOf(record.element_type);
    const { workgroups } = launch(record, c, run);
    const parameters = Im2colOracle.parametersOf(c, record.activation.name, run);
    const contents = {
      ...inputs,
      y: new Uint8Array(Math.ceil(size / 4) * 4 + run.guard).fill(run.unwritten),
      uniforms: uniforms(record, sizesOf(record.tile, c), parameters),
    };
    const data = await dispatch(device, pipeline, record, contents, grid(workgroups, c.width));
    const guard = new Uint8Array(data, size);
    return {
      got: decoded(data, count, record.element_type),
      stray: guard.reduce((sum, byte) => sum + (byte !== run.unwritten), 0),
    };
  }

  const decoded = (data, count, type) =>
    type === "f32"
      ? Float64Array.from(new Float32Array(data, 0, count))
      : Float64Array.from(new Uint16Array(data, 0, count), fromHalf);

  /** The bytes of y afterwards. All is issued before the first wait. */
  async function dispatch(device, pipeline, record, contents, workgroups) {
    const buffers = [];
    const buffer = (size, usage) => {
      buffers.push(device.createBuffer({ size, usage }));
      return buffers.at(-1);
    };
    const entry = ({ binding, name, type }) => {
      const usage = type === "uniform" ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
      const both = GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
      const made = buffer(contents[name].byteLength, usage | both);
      device.queue.writeBuffer(made, 0, contents[name]);
      return { binding, resource: { buffer: made } };
    };
    try {
      const entries = record.bindings.map(entry);
      const y = entries[record.bindings.findIndex(({ name }) => name === "y")].resource.buffer;
      const size = contents.y.byteLength;
      const copy = buffer(size, GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ);
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(
        0,
        device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }),
      );
      pass.dispatchWorkgroups(...workgroups);
      pass.end();
      encoder.copyBufferToBuffer(y, 0, copy, 0, size);
      device.queue.submit([encoder.finish()]);
      await copy.mapAsync(GPUMapMode.READ);
      return copy.getMappedRange().slice(0);
    } finally {
      for (const made of buffers) made.destroy();
    }
  }

  /** `count` workgroups in rows of at most `width`: (x, y) of a dispatch; a few may be surplus. */
  function grid(count, width) {
    const rows = Math.ceil(count / width);
    return [Math.ceil(count / rows), rows];
  }

  /** What the uniforms say of the convolution, by name. */
  function sizesOf(tile, c) {
    const m = c.output_h * c.output_w;
    const k = c.kernel_h * c.kernel_w * c.channel_i;
    return {
      ...c,
      im2col_m: m,
      im2col_k: k,
      im2col_n: c.channel_o,
      m_tiles: Math.ceil(m / tile.m),
      n_tiles: Math.ceil(c.channel_o / tile.n),
      k_tiles: Math.ceil(k / tile.k),
      pads: c.pads.slice(0, 2),
    };
  }

  function uniforms(record, sizes, parameters) {
    const values = { ...sizes };
    record.activation.parameters.forEach(({ name }, slot) => {
      values[`activation_param_${slot}`] = parameters[name];
    });
    const view = new DataView(new ArrayBuffer(record.uniforms.size));
    for (const { name, type, offset } of record.uniforms.fields) {
      [values[name]].flat().forEach((value, i) => {
        if (type === "f32") view.setFloat32(offset + 4 * i, value, true);
        else view.setUint32(offset + 4 * i, value, true);
      });
    }
    return new Uint8Array(view.buffer);
  }

  return { Refusal, compile, encoded, execute, launch };
})();
