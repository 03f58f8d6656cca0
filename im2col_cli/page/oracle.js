/* What a result must be: inputs, convolution and activations in double precision, and how far f32
   arithmetic may stray from them. The same as cases.py, reference.py, ulp.py and parity.py; what is
   chosen there rather than computed comes in the page's data, as `run` (page_run.py). */

globalThis.Im2colOracle = (() => {
  "use strict";

  // ---- Numbers

  const double = new Float64Array(1);
  const words = new Uint32Array(double.buffer);
  const high = new Uint8Array(new Uint16Array([1]).buffer)[0] ? 1 : 0;

  // The smallest normal exponent, and the bits of the significand after the first.
  const TYPES = { f16: [-14, 10], f32: [-126, 23] };

  /** The power of two at or below |value|, at least `least`. */
  function exponent(value, least) {
    double[0] = value;
    return Math.max(((words[high] >>> 20) & 0x7ff) - 1023, least);
  }

  /** The distance between neighbours of the element type around the value; never zero. */
  function ulp(value, type) {
    const [least, bits] = TYPES[type];
    return 2 ** (exponent(value, least) - bits);
  }

  /** The bits of the f16 nearest to a number, the even one of two. */
  function toHalf(value) {
    const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    if (Number.isNaN(value)) return 0x7e00;
    const magnitude = Math.abs(value);
    if (magnitude >= 65520) return sign | 0x7c00;
    const binade = exponent(magnitude, -14);
    const scaled = magnitude / 2 ** (binade - 10);
    let whole = Math.floor(scaled);
    const rest = scaled - whole;
    if (rest > 0.5 || (rest === 0.5 && whole % 2)) whole += 1;
    return sign | (((binade + 14) << 10) + whole);
  }

  function fromHalf(bits) {
    const sign = bits & 0x8000 ? -1 : 1;
    const binade = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (binade === 31) return fraction ? NaN : sign * Infinity;
    return sign * (binade ? (1024 + fraction) * 2 ** (binade - 25) : fraction * 2 ** -24);
  }

  // ---- Inputs

  /** lowbias32: Chris Wellons, "Prospecting for Hash Functions", 2018 (public domain). */
  function hash(word) {
    word = Math.imul(word ^ (word >>> 16), 0x7feb352d);
    word = Math.imul(word ^ (word >>> 15), 0x846ca68b);
    return (word ^ (word >>> 16)) >>> 0;
  }

  const onGrid = (word) => ((word % 33) - 16) / 8;

  function arbitrary(word) {
    const magnitude = (1 + (word & 1023) / 1024) / 2 ** ((word >>> 10) & 3);
    return word >>> 31 ? -magnitude : magnitude;
  }

  /** x NHWC, weight OHWI and bias of a case: values that f16 holds exactly. */
  function tensors(c) {
    const draw = c.is_rounded ? arbitrary : onGrid;
    const tensor = (count, number, scale) => {
      const key = hash((c.seed + number) >>> 0);
      return Float64Array.from({ length: count }, (_, i) => draw(hash((i ^ key) >>> 0)) * scale);
    };
    return {
      x: tensor(c.batch * c.src_h * c.src_w * c.channel_i, 0, 1),
      weight: tensor(c.channel_o * c.kernel_h * c.kernel_w * c.channel_i, 1, c.weight_scale),
      bias: tensor(c.channel_o, 2, 1),
    };
  }

  // ---- Convolution

  /** The sums, before any activation: NHWC. `bias` may be null. */
  function convolve(c, x, weight, bias) {
    const y = new Float64Array(c.batch * c.output_h * c.output_w * c.channel_o);
    let place = 0;
    for (let image = 0; image < c.batch; image++) {
      for (let row = 0; row < c.output_h; row++) {
        for (let column = 0; column < c.output_w; column++) {
          for (let n = 0; n < c.channel_o; n++) {
            y[place++] = pixel(c, x, weight, image, row, column, n) + (bias ? bias[n] : 0);
          }
        }
      }
    }
    return y;
  }

  function pixel(c, x, weight, image, row, column, n) {
    let sum = 0;
    for (let i = 0; i < c.kernel_h; i++) {
      const h = row * c.strides[0] + i * c.dilations[0] - c.pads[0];
      if (h < 0 || h >= c.src_h) continue;
      for (let j = 0; j < c.kernel_w; j++) {
        const w = column * c.strides[1] + j * c.dilations[1] - c.pads[1];
        if (w < 0 || w >= c.src_w) continue;
        const from = ((image * c.src_h + h) * c.src_w + w) * c.channel_i;
        const by = ((n * c.kernel_h + i) * c.kernel_w + j) * c.channel_i;
        for (let k = 0; k < c.channel_i; k++) sum += x[from + k] * weight[by + k];
      }
    }
    return sum;
  }

  // ---- Activations

  /** The series of DLMF 7.6.2: no term is negative, so nothing cancels. */
  function erfSeries(x) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }

  /** The continued fraction of DLMF 7.9.1, from the 64th step back; for x from 2. */
  function erfcFraction(x) {
    let tail = 0;
    for (let n = 64; n > 0; n--) tail = n / 2 / (x + tail);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + tail);
  }

  function erfc(x) {
    if (x >= 2) return erfcFraction(x);
    return x <= -2 ? 2 - erfcFraction(-x) : 1 - erfSeries(x);
  }

  function erf(x) {
    if (Math.abs(x) < 2) return erfSeries(x);
    return Math.sign(x) * (1 - erfcFraction(Math.abs(x)));
  }

  function sigmoid(v) {
    const e = Math.exp(-Math.abs(v));
    return (v >= 0 ? 1 : e) / (1 + e);
  }

  const between = (v, least, most) => Math.min(Math.max(v, least), most);
  const geluTanhArgument = (v) => Math.sqrt(8 / Math.PI) * (v + 0.044715 * v * v * v);

  /** By name: the activation, and the argument of exp() where that takes part. */
  const ACTIVATIONS = {
    none: [(v) => v],
    relu: [(v) => Math.max(v, 0)],
    sigmoid: [sigmoid, (v) => v],
    clip: [(v, p) => between(v, p.min, p.max)],
    hard_sigmoid: [(v, p) => between(p.alpha * v + p.beta, 0, 1)],
    leaky_relu: [(v, p) => (v >= 0 ? v : p.alpha * v)],
    tanh: [Math.tanh],
    quick_gelu: [(v, p) => v * sigmoid(p.alpha * v), (v, p) => p.alpha * v],
    quick_gelu_unit: [(v) => v * sigmoid(v), (v) => v],
    hard_swish: [(v) => v * between(v / 6 + 0.5, 0, 1)],
    elu: [(v, p) => (v >= 0 ? v : p.alpha * Math.expm1(v))],
    gelu: [(v) => v * 0.5 * erfc(-v / Math.SQRT2), (v) => (v * v) / 2],
    gelu_tanh: [(v) => v * sigmoid(geluTanhArgument(v)), geluTanhArgument],
    softplus: [(v) => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v))), (v) => v],
    thresholded_relu: [(v, p) => (v > p.alpha ? v : 0)],
    erf: [erf],
  };

  const activate = (name, v, parameters) => ACTIVATIONS[name][0](v, parameters);

  /** How far a result may be from `value`, which is the activation of the exact sum `v`. */
  function bound(name, v, value, type, run, parameters = run.parameters[name]) {
    const { ulps, absolute } = run.oracles[name];
    const argument = ACTIVATIONS[name][1]?.(v, parameters) ?? 0;
    const own = ulps + run.argument_ulps * Math.min(Math.abs(argument), run.underflow);
    const store = type === "f16" ? ulp(value, "f16") : 0;
    return store + own * ulp(value, "f32") + absolute + run.flushed;
  }

  // ---- A case

  /** The exact sums of a case, and `slack`, how far f32 sums may be from them (or null). */
  function sums(c, { x, weight, bias }, hasBias, run) {
    const exact = convolve(c, x, weight, hasBias ? bias : null);
    if (!c.is_rounded) return { exact, slack: null };
    const [a, b, d] = [x, weight, bias].map((values) => values.map(Math.abs));
    const slack = convolve(c, a, b, hasBias ? d : null).map((size) => size * run.sum_slack);
    return { exact, slack };
  }

  /** The values of an activation's slots on a case. */
  const parametersOf = (c, name, run) => c.parameters[name] ?? run.parameters[name];

  /** What y must be, and how far it may be off. */
  function expected(c, { exact, slack }, name, type, run) {
    const parameters = parametersOf(c, name, run);
    const values = exact.map((v) => activate(name, v, parameters));
    const bounds = exact.map((v, i) => bound(name, v, values[i], type, run, parameters));
    slack?.forEach((step, i) => {
      const moved = (by) => Math.abs(activate(name, exact[i] + by, parameters) - values[i]);
      bounds[i] += Math.max(moved(-step), moved(step));
    });
    return { values, bounds };
  }

  /** How many results are wrong, and the one that comes nearest to its own bound, or beyond. */
  function compare(c, got, { values, bounds }, type, run) {
    let wrong = 0;
    let most = -2;
    let place = 0;
    const errorAt = (i) => (Number.isFinite(got[i]) ? Math.abs(got[i] - values[i]) : Infinity);
    for (let i = 0; i < values.length; i++) {
      const error = errorAt(i);
      const isWrong = error > bounds[i];
      if (isWrong) wrong += 1;
      // An allowed flush to zero is no error worth showing.
      const share = isWrong || Math.abs(values[i]) >= run.flushed ? error / bounds[i] : -1;
      if (share > most) [most, place] = [share, i];
    }
    const unit = ulp(values[place], type);
    const worst = {
      case: c.name,
      ulp: errorAt(place) / unit,
      bound: bounds[place] / unit,
      at: indices(c, place),
      reference: values[place],
      got: got[place],
    };
    return { wrong, worst };
  }

  function indices(c, place) {
    const n = place % c.channel_o;
    const pixels = (place - n) / c.channel_o;
    const column = pixels % c.output_w;
    const rows = (pixels - column) / c.output_w;
    const row = rows % c.output_h;
    return [(rows - row) / c.output_h, row, column, n];
  }

  return {
    activate,
    compare,
    convolve,
    expected,
    fromHalf,
    names: Object.keys(ACTIVATIONS),
    parametersOf,
    sums,
    tensors,
    toHalf,
    ulp,
  };
})();
