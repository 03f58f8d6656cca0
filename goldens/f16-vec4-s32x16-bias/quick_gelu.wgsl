// f16-vec4-s32x16-bias/quick_gelu: Conv2D by im2col in matrices, with a fused activation.
//
//   y = activation(conv(x, weight) + bias)
//
// For each image, m pixels by n = channel_o channels, summed over the k of all kernel positions and
// input channels. A workgroup stages the patch of x that its pixels read, once for all positions,
// and reads weight as it goes. A subgroup multiplies matrices, for one part of K: every K_SPLIT-th
// block of channels. At the end the workgroup adds up the parts, which are plain numbers then: so
// the activation is fused as everywhere.
//
// weight is packed in blocks of 16 output channels by 16 input channels, each in one piece:
// [channel_o / 16, kernel_h, kernel_w, channel_i / 16, 16, 16], with zeros up to whole blocks.
// Sums and activation are f32; the result is rounded once, when it is stored.
//
// Activation: quick_gelu, kind 7: v * sigmoid(alpha * v)
//   activation_param_0 = alpha
//
// Generated from im2col_subgroup_matrix.wgsl.jinja and activations/quick_gelu.wgsl.jinja:
// edit those and accept the change with UPDATE_WGSL_GOLDEN=1 im2col check-goldens.

enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

// A subgroup is a part of the local index here: uniform, but not so that a compiler could tell.
diagnostic(off, chromium.subgroup_matrix_uniformity);

// One workgroup computes TILE_M pixels by TILE_N channels, in matrices of BLOCK by BLOCK.
const TILE_M = 32u;
const TILE_N = 16u;
const BLOCK = 16u;

// The invocations of a subgroup: the host runs this only where all subgroups have so many.
const INVOCATIONS = 32u;

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

// Pixels lie half a block further apart than they are long, so that neighbours meet in no memory
// bank, and rows of matrices stay aligned to 16 bytes.
override PATCH_STRIDE = CHUNK + BLOCK / 2u;

// A step is one kernel position and one block of channels; one part of K has so many of a chunk's.
override CHUNK_BLOCKS = CHUNK / BLOCK;
override STEPS = WINDOW_H * WINDOW_W * CHUNK_BLOCKS;
override PART_STEPS = (STEPS + K_SPLIT - 1u) / K_SPLIT;

override CHANNEL_BLOCKS = (CHANNEL_I + BLOCK - 1u) / BLOCK;
override N_BLOCKS = (CHANNEL_O + BLOCK - 1u) / BLOCK;

struct Uniforms {
    batch: u32, // images in x and y
    activation_param_0: f32, // quick_gelu: alpha
}

// Everything is in bind group 0.
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> weight: array<f16>;
@group(0) @binding(2) var<storage, read> bias: array<f16>;
@group(0) @binding(3) var<storage, read_write> y: array<f16>;
@group(0) @binding(4) var<uniform> uniforms: Uniforms;

// The patch: [PHASES, PATCH_PIXELS, CHUNK], in rows of PATCH_STRIDE.
var<workgroup> x_patch: array<f16, PHASES * PATCH_PIXELS * PATCH_STRIDE>;

// What each part of K sums: [K_SPLIT, TILE_M, TILE_N].
var<workgroup> partial_sums: array<f32, K_SPLIT * TILE_M * TILE_N>;

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
    let first = place * PATCH_STRIDE + vector * VEC_SIZE;
    x_patch[first + 0u] = value.x;
    x_patch[first + 1u] = value.y;
    x_patch[first + 2u] = value.z;
    x_patch[first + 3u] = value.w;
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

// bias: [channel_o].
fn load_bias(n: u32) -> f32 {
    return f32(bias[n]);
}

// y: [batch, output_h, output_w, channel_o].
fn store_y(batch: u32, row: u32, column: u32, n: u32, value: f32) {
    y[((batch * OUTPUT_H + row) * OUTPUT_W + column) * CHANNEL_O + n] = f16(value);
}

// QuickGelu: v sigmoid(alpha v), with the sigmoid from e = exp(-|alpha v|), which cannot overflow.
// Its argument is bounded where the sigmoid has long settled, so that the product cannot either.
fn activation(v: f32) -> f32 {
    let alpha = uniforms.activation_param_0;
    let argument = alpha * min(max(v, -1e30), 1e30);
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

alias Pixels = subgroup_matrix_left<f16, BLOCK, BLOCK>;
alias Weights = subgroup_matrix_right<f16, BLOCK, BLOCK>;
alias Sums = subgroup_matrix_result<f32, BLOCK, BLOCK>;

// 16 pixels of the patch by 16 input channels.
fn load_pixels(first: u32) -> Pixels {
    return subgroupMatrixLoad<Pixels, row_major>(&x_patch, first, PATCH_STRIDE);
}

// The weight of 16 output channels, at a position of the kernel, for 16 input channels.
fn load_weight(n_block: u32, kernel_index: u32, channel_block: u32) -> Weights {
    // Beyond the last output channels those are summed once more, for nothing.
    let row = min(n_block, N_BLOCKS - 1u) * KERNEL_H * KERNEL_W + kernel_index;
    let first = (row * CHANNEL_BLOCKS + channel_block) * BLOCK * BLOCK;
    return subgroupMatrixLoad<Weights, col_major>(&weight, first, BLOCK);
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
    let k_part = local_index / INVOCATIONS;

    // The sums of the tile, a matrix for each of its blocks: down, across.
    var sums_0_0 = Sums();
    var sums_1_0 = Sums();

    for (var window = 0u; window < WINDOWS; window++) {
        let window_h = window / WINDOWS_W * WINDOW_H;
        let window_w = window % WINDOWS_W * WINDOW_W;
        for (var channel_first = 0u; channel_first < CHANNEL_I; channel_first += CHUNK) {
            workgroupBarrier();
            stage_x(tile, Window(window_h, window_w, channel_first), local_index);
            workgroupBarrier();

            // Steps of one kernel position and BLOCK input channels each.
            for (var i = 0u; i < PART_STEPS; i++) {
                let step = i * K_SPLIT + k_part;
                if (STEPS % K_SPLIT > 0u && step >= STEPS) {
                    break;
                }
                let block = step % CHUNK_BLOCKS;
                let row = step / CHUNK_BLOCKS / WINDOW_W;
                let column = step / CHUNK_BLOCKS % WINDOW_W;
                let kernel_index = (window_h + row) * KERNEL_W + window_w + column;
                let channel_block = channel_first / BLOCK + block;

                let n_block_0 = tile.n_first / BLOCK + 0u;
                let weight_0 = load_weight(n_block_0, kernel_index, channel_block);
                let x_first = patch_place(row, column) * PATCH_STRIDE + block * BLOCK;
                let pixels_0 = load_pixels(x_first + 0u * BLOCK * PATCH_STRIDE);
                sums_0_0 = subgroupMatrixMultiplyAccumulate(pixels_0, weight_0, sums_0_0);
                let pixels_1 = load_pixels(x_first + 1u * BLOCK * PATCH_STRIDE);
                sums_1_0 = subgroupMatrixMultiplyAccumulate(pixels_1, weight_0, sums_1_0);
            }
        }
    }

    let first = k_part * TILE_M * TILE_N;
    let first_0_0 = first + (0u * TILE_N + 0u) * BLOCK;
    subgroupMatrixStore<row_major>(&partial_sums, first_0_0, sums_0_0, TILE_N);
    let first_1_0 = first + (1u * TILE_N + 0u) * BLOCK;
    subgroupMatrixStore<row_major>(&partial_sums, first_1_0, sums_1_0, TILE_N);
    workgroupBarrier();
    for (var i = local_index; i < TILE_M * TILE_N; i += WORKGROUP_SIZE) {
        var sum = 0.0;
        for (var part = 0u; part < K_SPLIT; part++) {
            sum += partial_sums[part * TILE_M * TILE_N + i];
        }
        epilogue(tile, tile.m_first + i / TILE_N, tile.n_first + i % TILE_N, sum);
    }
}
