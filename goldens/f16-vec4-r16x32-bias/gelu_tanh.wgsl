// f16-vec4-r16x32-bias/gelu_tanh: Conv2D by im2col in registers, with a fused activation.
//
//   y = activation(conv(x, weight) + bias)
//
// For each image, m pixels by n = channel_o channels, summed over the k of all kernel positions and
// input channels. A workgroup stages the patch of x that its pixels read, once for all positions,
// and reads weight as it goes. An invocation owns a tile of registers, for one part of K: every
// K_SPLIT-th vector of channels. At the end the workgroup adds up the parts.
//
// weight is packed: [kernel_h, kernel_w, channel_i, channel_o], with zeros up to a multiple of four
// output channels. Sums and activation are f32; the result is rounded once, when it is stored.
//
// Activation: gelu_tanh, kind 11: v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3)))
//
// Generated from im2col_registers.wgsl.jinja and activations/gelu_tanh.wgsl.jinja:
// edit those and accept the change with UPDATE_WGSL_GOLDEN=1 im2col check-goldens.

enable f16;

// One workgroup computes TILE_M pixels by TILE_N channels.
const TILE_M = 16u;
const TILE_N = 32u;

// One invocation computes PIXELS by CHANNELS of them.
const PIXELS = 4u;
const CHANNELS = 4u;
const LANES_M = TILE_M / PIXELS;
const LANES_N = TILE_N / CHANNELS;
const INVOCATIONS = LANES_M * LANES_N;

// x is read VEC_SIZE input channels at a time.
const VEC_SIZE = 4u;

// The convolution, and how it is cut: the host sets these when it makes the pipeline.
override SRC_H: u32; // height of x
override SRC_W: u32; // width of x
override CHANNEL_I: u32; // channels of x
override CHANNEL_O: u32; // channels of y
override KERNEL_H: u32; // height of the kernel
override KERNEL_W: u32; // width of the kernel
override OUTPUT_H: u32; // height of y
override OUTPUT_W: u32; // width of y
override STRIDE_H: u32; // stride down
override STRIDE_W: u32; // stride across
override PAD_TOP: u32; // head pad above x
override PAD_LEFT: u32; // head pad left of x
override DILATION_H: u32; // dilation down
override DILATION_W: u32; // dilation across
override K_SPLIT: u32; // parts of K, which a workgroup sums side by side
override STRIP_W: u32; // columns of a strip of y
override WINDOW_H: u32; // height of a window; divides KERNEL_H
override WINDOW_W: u32; // width of a window; divides KERNEL_W
override CHUNK: u32; // input channels staged at a time; divides CHANNEL_I

override WORKGROUP_SIZE = INVOCATIONS * K_SPLIT;

// The kernel is applied a window at a time, from which the pixels of y read x at all strides apart.
// Sorted by the remainders of these distances x becomes PHASES images, in each of which pixels that
// are neighbours in y read neighbours.
override WINDOWS_W = KERNEL_W / WINDOW_W;
override WINDOWS = KERNEL_H / WINDOW_H * WINDOWS_W;
override PHASES_H = min(STRIDE_H, (WINDOW_H - 1u) * DILATION_H + 1u);
override PHASES_W = min(STRIDE_W, (WINDOW_W - 1u) * DILATION_W + 1u);
override PHASES = PHASES_H * PHASES_W;

// How far a window reaches in a phase, beyond what it reads for its first position.
override HALO_H = (WINDOW_H - 1u) * DILATION_H / STRIDE_H;
override HALO_W = (WINDOW_W - 1u) * DILATION_W / STRIDE_W;

// y is cut into STRIPS of columns. Pixels of a strip are counted along rows of PITCH, as wide as
// what they read: so another position in the window is the same distance away for all of them.
override PITCH = STRIP_W + HALO_W;
override STRIPS = (OUTPUT_W + STRIP_W - 1u) / STRIP_W;
override M_TILES = (OUTPUT_H * PITCH + TILE_M - 1u) / TILE_M;
override N_TILES = (CHANNEL_O + TILE_N - 1u) / TILE_N;
override TILES = STRIPS * M_TILES * N_TILES;

// What a workgroup stages of x, in each phase: what its TILE_M pixels read.
override PATCH_PIXELS = TILE_M + HALO_H * PITCH + HALO_W;
override PATCH_VECTORS = CHUNK / VEC_SIZE;
override PATCH_SIZE = PHASES * PATCH_PIXELS * PATCH_VECTORS;

// Vectors that an invocation loads before it stores the first of them.
const LOADS = 4u;

// Pixels lie a vector further apart than they are long, so that neighbours meet in no memory bank.
override PATCH_STRIDE = PATCH_VECTORS + 1u;

// What one part of K has of a pixel's vectors.
override PART_VECTORS = (PATCH_VECTORS + K_SPLIT - 1u) / K_SPLIT;

// A row of weight, in vectors of CHANNELS.
override N_VECTORS = (CHANNEL_O + CHANNELS - 1u) / CHANNELS;

struct Uniforms {
    batch: u32, // images in x and y
}

// Everything is in bind group 0.
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> bias: array<f16>;
@group(0) @binding(3) var<storage, read_write> y: array<f16>;
@group(0) @binding(4) var<uniform> uniforms: Uniforms;

// The patch: [PHASES, PATCH_PIXELS, PATCH_VECTORS], in rows of PATCH_STRIDE.
var<workgroup> x_patch: array<vec4<f16>, PHASES * PATCH_PIXELS * PATCH_STRIDE>;

// What each part of K sums: [K_SPLIT, TILE_M, LANES_N].
var<workgroup> partial_sums: array<vec4<f32>, K_SPLIT * TILE_M * LANES_N>;

// What a workgroup computes: TILE_M pixels of a strip, from m_first, by TILE_N channels.
struct Tile {
    batch: u32,
    strip: u32,
    m_first: u32,
    n_first: u32,
}

// Tiles that read the same x come one after the other.
fn tile_at(index: u32) -> Tile {
    let m_tile = index / N_TILES;
    let strip = m_tile / M_TILES;
    let m_first = m_tile % M_TILES * TILE_M;
    return Tile(strip / STRIPS, strip % STRIPS, m_first, index % N_TILES * TILE_N);
}

// What it stages at a time: from a position of the kernel and an input channel on.
struct Window {
    h: u32,
    w: u32,
    channel: u32,
}

// x: [batch, src_h, src_w, channel_i]. Zero in the padding and beyond the channels.
fn load_x(batch: u32, src_h: u32, src_w: u32, channel: u32) -> vec4<f16> {
    if (src_h >= SRC_H || src_w >= SRC_W || channel >= CHANNEL_I) {
        return vec4<f16>();
    }
    let pixel = (batch * SRC_H + src_h) * SRC_W + src_w;
    return x[(pixel * CHANNEL_I + channel) / VEC_SIZE];
}

// Puts a vector of a pixel's channels into the patch.
fn store_patch(place: u32, vector: u32, value: vec4<f16>) {
    x_patch[place * PATCH_STRIDE + vector] = value;
}

// What belongs into the patch: a vector of channels of pixel `place`, one phase after the other.
fn read_patch(tile: Tile, window: Window, place: u32, vector: u32) -> vec4<f16> {
    let m = tile.m_first + place % PATCH_PIXELS;
    let phase = place / PATCH_PIXELS;

    // Above or left of x this wraps around to huge values, which load_x takes for padding.
    let row = m / PITCH;
    let column = tile.strip * STRIP_W + m % PITCH;
    let src_h = row * STRIDE_H + phase / PHASES_W + window.h * DILATION_H - PAD_TOP;
    let src_w = column * STRIDE_W + phase % PHASES_W + window.w * DILATION_W - PAD_LEFT;
    return load_x(tile.batch, src_h, src_w, window.channel + vector * VEC_SIZE);
}

// Stages what the tile's pixels read of x through a window, CHUNK channels of it. An invocation
// loads several vectors before it stores the first, so that it waits for all of them at once.
fn stage_x(tile: Tile, window: Window, local_index: u32) {
    for (var first = local_index; first < PATCH_SIZE; first += LOADS * WORKGROUP_SIZE) {
        var values: array<vec4<f16>, LOADS>;
        for (var load = 0u; load < LOADS; load++) {
            let i = first + load * WORKGROUP_SIZE;
            values[load] = read_patch(tile, window, i / PATCH_VECTORS, i % PATCH_VECTORS);
        }
        for (var load = 0u; load < LOADS; load++) {
            let i = first + load * WORKGROUP_SIZE;
            if (i < PATCH_SIZE) {
                store_patch(i / PATCH_VECTORS, i % PATCH_VECTORS, values[load]);
            }
        }
    }
}

// Where in the patch the workgroup's first pixel reads, at a position of the window.
fn patch_place(row: u32, column: u32) -> u32 {
    let h = row * DILATION_H;
    let w = column * DILATION_W;
    let phase = h % STRIDE_H * PHASES_W + w % STRIDE_W;
    return phase * PATCH_PIXELS + h / STRIDE_H * PITCH + w / STRIDE_W;
}

// weight: [kernel_h, kernel_w, channel_i, N_VECTORS], in vectors of output channels.
fn load_weight(k: u32, n: u32) -> vec4<f32> {
    return vec4<f32>(weight[k * N_VECTORS + n]);
}

// bias: [channel_o].
fn load_bias(n: u32) -> f32 {
    return f32(bias[n]);
}

// y: [batch, output_h, output_w, channel_o].
fn store_y(batch: u32, row: u32, column: u32, n: u32, value: f32) {
    y[((batch * OUTPUT_H + row) * OUTPUT_W + column) * CHANNEL_O + n] = f16(value);
}

// Gelu, tanh form: v/2 (1 + tanh(u)) with u = sqrt(2 / pi) (v + 0.044715 v^3), which is
// v sigmoid(2 u): from e = exp(-|2 u|), which neither overflows nor cancels.
fn activation(v: f32) -> f32 {
    // The sigmoid has settled at 30; v^3 could overflow.
    let x = min(max(v, -30.0), 30.0);
    let argument = 1.5957692 * (x + 0.044715 * x * x * x);
    let e = exp(-abs(argument));
    return v * (select(e, 1.0, argument >= 0.0) / (1.0 + e));
}

// Epilogue: turns the sum of one output element into its value.
fn epilogue(tile: Tile, m: u32, n: u32, sum: f32) {
    let row = m / PITCH;
    let column = tile.strip * STRIP_W + m % PITCH;
    // Tiles overhang the edges of the output, and rows overhang their strip.
    if (m % PITCH >= STRIP_W || row >= OUTPUT_H || column >= OUTPUT_W || n >= CHANNEL_O) {
        return;
    }
    store_y(tile.batch, row, column, n, activation(sum + load_bias(n)));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_index) local_index: u32,
) {
    // The host may spread the tiles over two dimensions, and round up: surplus workgroups leave.
    let index = workgroup_id.y * num_workgroups.x + workgroup_id.x;
    if (index >= uniforms.batch * TILES) {
        return;
    }
    let tile = tile_at(index);

    // This invocation owns PIXELS pixels from m_local on, and one vector of channels.
    let n_local = local_index % LANES_N;
    let m_local = local_index / LANES_N % LANES_M * PIXELS;
    let k_part = local_index / INVOCATIONS;
    // Beyond the last channels it sums those once more, for nothing.
    let n_vector = min(tile.n_first / CHANNELS + n_local, N_VECTORS - 1u);
    var sums: array<vec4<f32>, PIXELS>;

    for (var window = 0u; window < WINDOWS; window++) {
        let window_h = window / WINDOWS_W * WINDOW_H;
        let window_w = window % WINDOWS_W * WINDOW_W;
        for (var channel_first = 0u; channel_first < CHANNEL_I; channel_first += CHUNK) {
            workgroupBarrier();
            stage_x(tile, Window(window_h, window_w, channel_first), local_index);
            workgroupBarrier();

            for (var position = 0u; position < WINDOW_H * WINDOW_W; position++) {
                let row = position / WINDOW_W;
                let column = position % WINDOW_W;
                let kernel_index = (window_h + row) * KERNEL_W + window_w + column;
                let k_first = kernel_index * CHANNEL_I + channel_first;
                let x_first = (patch_place(row, column) + m_local) * PATCH_STRIDE;
                for (var step = 0u; step < PART_VECTORS; step++) {
                    let vector = step * K_SPLIT + k_part;
                    if (PATCH_VECTORS % K_SPLIT > 0u && vector >= PATCH_VECTORS) {
                        break;
                    }
                    let k = k_first + vector * VEC_SIZE;
                    let weight_0 = load_weight(k + 0u, n_vector);
                    let weight_1 = load_weight(k + 1u, n_vector);
                    let weight_2 = load_weight(k + 2u, n_vector);
                    let weight_3 = load_weight(k + 3u, n_vector);
                    for (var pixel = 0u; pixel < PIXELS; pixel++) {
                        let place = x_first + pixel * PATCH_STRIDE + vector;
                        let x_values = vec4<f32>(x_patch[place]);
                        sums[pixel] += x_values.x * weight_0;
                        sums[pixel] += x_values.y * weight_1;
                        sums[pixel] += x_values.z * weight_2;
                        sums[pixel] += x_values.w * weight_3;
                    }
                }
            }
        }
    }

    for (var pixel = 0u; pixel < PIXELS; pixel++) {
        partial_sums[(k_part * TILE_M + m_local + pixel) * LANES_N + n_local] = sums[pixel];
    }
    workgroupBarrier();
    for (var i = local_index; i < TILE_M * LANES_N; i += WORKGROUP_SIZE) {
        var sum = vec4<f32>();
        for (var part = 0u; part < K_SPLIT; part++) {
            sum += partial_sums[part * TILE_M * LANES_N + i];
        }
        let m = tile.m_first + i / LANES_N;
        let n = tile.n_first + i % LANES_N * CHANNELS;
        for (var channel = 0u; channel < CHANNELS; channel++) {
            epilogue(tile, m, n + channel, sum[channel]);
        }
    }
}
