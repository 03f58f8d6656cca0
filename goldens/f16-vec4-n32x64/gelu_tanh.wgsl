// f16-vec4-n32x64/gelu_tanh: Conv2D by im2col, with a fused activation.
//
//   y = activation(conv(x, weight))
//
// For each image, m = output_h * output_w pixels by n = channel_o channels, summed over
// k = kernel_h * kernel_w * channel_i. The im2col matrix of m x k is read from x as it is needed.
// Sums and activation are f32; the result is rounded once, when it is stored.
//
// Activation: gelu_tanh, kind 11: v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3)))
//
// Generated from im2col_matmul.wgsl.jinja and activations/gelu_tanh.wgsl.jinja:
// edit those and accept the change with UPDATE_WGSL_GOLDEN=1 im2col check-goldens.

enable f16;

const WORKGROUP_SIZE = 64u;

// One workgroup computes TILE_M pixels by TILE_N channels and walks K in steps of TILE_K.
const TILE_M = 32u;
const TILE_N = 64u;
const TILE_K = 16u;

// x and weight are read VEC_SIZE input channels at a time: TILE_VECTORS reads make a step.
const VEC_SIZE = 4u;
const TILE_VECTORS = TILE_K / VEC_SIZE;

struct Uniforms {
    batch: u32, // images in x and y
    src_h: u32, // height of x
    src_w: u32, // width of x
    channel_i: u32, // channels of x
    kernel_h: u32, // height of the kernel
    kernel_w: u32, // width of the kernel
    output_h: u32, // height of y
    output_w: u32, // width of y
    im2col_m: u32, // output_h * output_w
    im2col_k: u32, // kernel_h * kernel_w * channel_i
    im2col_n: u32, // channels of y
    m_tiles: u32, // ceil(im2col_m / TILE_M)
    n_tiles: u32, // ceil(im2col_n / TILE_N)
    k_tiles: u32, // ceil(im2col_k / TILE_K)
    dilations: vec2<u32>, // height, width
    pads: vec2<u32>, // head pads: top, left
    strides: vec2<u32>, // height, width
}

// Everything is in bind group 0.
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> y: array<f16>;
@group(0) @binding(4) var<uniform> uniforms: Uniforms;

// The workgroup's rows of the im2col matrix, [TILE_M, TILE_VECTORS], for the current K step.
var<workgroup> x_tile: array<vec4<f32>, TILE_M * TILE_VECTORS>;

// x: [batch, src_h, src_w, channel_i]. Reads the im2col matrix at row m, columns k onwards: zero in
// the padding and beyond the matrix. Positions are height first, like strides.
fn load_x(batch: u32, m: u32, k: u32) -> vec4<f32> {
    if (m >= uniforms.im2col_m || k >= uniforms.im2col_k) {
        return vec4<f32>();
    }
    let output = vec2<u32>(m / uniforms.output_w, m % uniforms.output_w);

    let channel = k % uniforms.channel_i;
    let kernel_index = k / uniforms.channel_i;
    let kernel = vec2<u32>(kernel_index / uniforms.kernel_w, kernel_index % uniforms.kernel_w);

    // Above or left of x this wraps around to huge values, so one comparison a side is enough.
    let src = output * uniforms.strides + kernel * uniforms.dilations - uniforms.pads;
    if (src.x >= uniforms.src_h || src.y >= uniforms.src_w) {
        return vec4<f32>();
    }
    let pixel = (batch * uniforms.src_h + src.x) * uniforms.src_w + src.y;
    return vec4<f32>(x[(pixel * uniforms.channel_i + channel) / VEC_SIZE]);
}

// weight: [channel_o, kernel_h, kernel_w, channel_i], that is [im2col_n, im2col_k].
fn load_weight(n: u32, k: u32) -> vec4<f32> {
    if (n >= uniforms.im2col_n || k >= uniforms.im2col_k) {
        return vec4<f32>();
    }
    return vec4<f32>(weight[(n * uniforms.im2col_k + k) / VEC_SIZE]);
}

// y: [batch, output_h, output_w, channel_o], that is [batch, im2col_m, im2col_n].
fn store_y(batch: u32, m: u32, n: u32, value: f32) {
    y[(batch * uniforms.im2col_m + m) * uniforms.im2col_n + n] = f16(value);
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
fn epilogue(batch: u32, m: u32, n: u32, sum: f32) {
    // Tiles overhang the edges of the product.
    if (m >= uniforms.im2col_m || n >= uniforms.im2col_n) {
        return;
    }
    store_y(batch, m, n, activation(sum));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_index) local_index: u32,
) {
    // The host may spread the tiles over two dimensions, and round up: surplus workgroups leave.
    let tile = workgroup_id.y * num_workgroups.x + workgroup_id.x;
    if (tile >= uniforms.batch * uniforms.m_tiles * uniforms.n_tiles) {
        return;
    }
    let n_tile = tile % uniforms.n_tiles;
    let m_tile = tile / uniforms.n_tiles % uniforms.m_tiles;
    let batch = tile / (uniforms.n_tiles * uniforms.m_tiles);

    // N-major: this invocation owns channel n and the tile's TILE_M pixels.
    let m_first = m_tile * TILE_M;
    let n = n_tile * TILE_N + local_index;
    var sums: array<f32, TILE_M>;

    for (var k_tile = 0u; k_tile < uniforms.k_tiles; k_tile++) {
        let k_first = k_tile * TILE_K;

        // Stage together what every invocation reads.
        for (var i = local_index; i < TILE_M * TILE_VECTORS; i += WORKGROUP_SIZE) {
            let k = k_first + i % TILE_VECTORS * VEC_SIZE;
            x_tile[i] = load_x(batch, m_first + i / TILE_VECTORS, k);
        }
        workgroupBarrier();

        // Multiply it with what this invocation alone reads.
        for (var step = 0u; step < TILE_VECTORS; step++) {
            let weight_values = load_weight(n, k_first + step * VEC_SIZE);
            for (var row = 0u; row < TILE_M; row++) {
                let x_values = x_tile[row * TILE_VECTORS + step];
                sums[row] += dot(x_values, weight_values);
            }
        }
        workgroupBarrier();
    }

    for (var row = 0u; row < TILE_M; row++) {
        epilogue(batch, m_first + row, n, sums[row]);
    }
}
