"""Mistakes that someone could make in the kernel: parity must see every one of them.

A mutant replaces a piece of the rendered WGSL. Each names a variant, without the element type, in
whose text the piece stands.
"""

from typing import NamedTuple

from im2col_cli.errors import TemplateError

_N = "vec4-n32x64-bias/clip"
_M = "vec4-m64x32-bias/clip"
_R = "vec4-r16x16/clip"


class Mutant(NamedTuple):
    """`equivalent` gives the reason where a mutant may survive: it computes the same, or an adapter
    may not show it."""

    name: str
    variant: str
    old: str
    new: str
    equivalent: str = ""

    def apply(self, text: str) -> str:
        """The mutated text. Raises TemplateError where the piece does not stand in it."""
        if self.old not in text:
            raise TemplateError(
                f"mutant {self.name!r} ({self.variant}): {self.old!r} is not in the text",
                "mutants follow the templates: correct the one or the other",
            )
        return text.replace(self.old, self.new)


_LOAD_X = (
    Mutant("strides swapped", _N, "uniforms.strides", "uniforms.strides.yx"),
    Mutant("dilations swapped", _N, "uniforms.dilations", "uniforms.dilations.yx"),
    Mutant("pads swapped", _N, "uniforms.pads", "uniforms.pads.yx"),
    Mutant("pads ignored", _N, " - uniforms.pads", ""),
    Mutant("a row of padding too much", _N, "- uniforms.pads", "- uniforms.pads - vec2(1u, 0u)"),
    Mutant("a column of padding too few", _N, "- uniforms.pads", "- uniforms.pads + vec2(0u, 1u)"),
    Mutant(
        "tail pads for head pads",
        _N,
        "- uniforms.pads",
        "- ((vec2(uniforms.output_h, uniforms.output_w) - 1u) * uniforms.strides"
        " + (vec2(uniforms.kernel_h, uniforms.kernel_w) - 1u) * uniforms.dilations + 1u"
        " - vec2(uniforms.src_h, uniforms.src_w) - uniforms.pads)",
    ),
    Mutant("stride ignored", _N, "output * uniforms.strides", "output"),
    Mutant("dilation ignored", _N, "kernel * uniforms.dilations", "kernel"),
    Mutant("rows not bounded", _N, "src.x >= uniforms.src_h || ", ""),
    Mutant("columns not bounded", _N, " || src.y >= uniforms.src_w", ""),
    Mutant("a row too many", _N, "src.x >= uniforms.src_h", "src.x > uniforms.src_h"),
    Mutant("a column too many", _N, "src.y >= uniforms.src_w", "src.y > uniforms.src_w"),
    Mutant("a column too few", _N, "src.y >= uniforms.src_w", "src.y + 1u >= uniforms.src_w"),
    Mutant("rows bounded by the width", _N, "src.x >= uniforms.src_h", "src.x >= uniforms.src_w"),
    Mutant(
        "kernel_h for kernel_w",
        _N,
        "kernel_index / uniforms.kernel_w",
        "kernel_index / uniforms.kernel_h",
    ),
    Mutant(
        "kernel column by kernel_h",
        _N,
        "kernel_index % uniforms.kernel_w",
        "kernel_index % uniforms.kernel_h",
    ),
    Mutant(
        "output_h for output_w",
        _N,
        "m / uniforms.output_w, m % uniforms.output_w",
        "m / uniforms.output_h, m % uniforms.output_h",
    ),
    Mutant(
        "output row and column swapped",
        _N,
        "m / uniforms.output_w, m % uniforms.output_w",
        "m % uniforms.output_w, m / uniforms.output_w",
    ),
    Mutant(
        "x read as NWHC",
        _N,
        "uniforms.src_h + src.x) * uniforms.src_w + src.y",
        "uniforms.src_w + src.y) * uniforms.src_h + src.x",
    ),
    Mutant("batch ignored in x", _N, "batch * uniforms.src_h + src.x", "src.x"),
    Mutant("batch stride of x wrong", _N, "batch * uniforms.src_h", "batch * uniforms.src_w"),
    Mutant(
        "channel lost", _N, "(pixel * uniforms.channel_i + channel)", "(pixel * uniforms.channel_i)"
    ),
    Mutant(
        "channels of y for those of x",
        _N,
        "pixel * uniforms.channel_i",
        "pixel * uniforms.im2col_n",
    ),
    Mutant("lanes of x permuted", _N, "+ channel) / VEC_SIZE]);", "+ channel) / VEC_SIZE]).yxzw;"),
    Mutant(
        "lanes of a vec2 swapped",
        "vec2-m64x16/clip",
        "+ channel) / VEC_SIZE]);",
        "+ channel) / VEC_SIZE]).yx;",
    ),
)

_LOAD_WEIGHT = (
    Mutant("OHWI read as HWIO", _N, "n * uniforms.im2col_k + k", "k * uniforms.im2col_n + n"),
    Mutant(
        "OHWI read as OIHW",
        _N,
        "n * uniforms.im2col_k + k",
        "n * uniforms.im2col_k + k % uniforms.channel_i * (uniforms.kernel_h * uniforms.kernel_w)"
        " + k / uniforms.channel_i",
    ),
    Mutant(
        "weight of the next channel", _N, "(n * uniforms.im2col_k", "((n + 1u) * uniforms.im2col_k"
    ),
    Mutant("weight row stride wrong", _N, "(n * uniforms.im2col_k", "(n * uniforms.channel_i"),
    Mutant("lanes of weight permuted", _N, "+ k) / VEC_SIZE]);", "+ k) / VEC_SIZE]).wzyx;"),
    Mutant("k not bounded in both loads", _N, " || k >= uniforms.im2col_k", ""),
)

_M_END, _N_END = "uniforms.im2col_m", "uniforms.im2col_n"
_EDGES = f"if (m >= {_M_END} || n >= {_N_END}) {{"
_LEAVE = "        return;\n    }\n    store"

_EPILOGUE = (
    Mutant("bias dropped", _N, "sum + load_bias(n)", "sum"),
    Mutant("bias twice", _N, "sum + load_bias(n)", "sum + 2.0 * load_bias(n)"),
    Mutant(
        "bias after the activation",
        _N,
        "activation(sum + load_bias(n))",
        "activation(sum) + load_bias(n)",
    ),
    Mutant("bias of the wrong channel", _N, "bias[n]", "bias[n + 1u]"),
    Mutant("bias by pixel", _N, "load_bias(n)", "load_bias(m)"),
    Mutant("activation dropped", _N, "activation(sum + load_bias(n)))", "sum + load_bias(n))"),
    Mutant(
        "activation twice",
        "vec4-n32x64/leaky_relu",
        "activation(sum)",
        "activation(activation(sum))",
    ),
    Mutant(
        "sum rounded to a few bits first", _N, "activation(sum ", "activation(quantizeToF16(sum) "
    ),
    Mutant("channels not bounded", _N, f"{_EDGES}\n{_LEAVE}", f"if (m >= {_M_END}) {{\n{_LEAVE}"),
    Mutant("pixels not bounded", _N, f"{_EDGES}\n{_LEAVE}", f"if (n >= {_N_END}) {{\n{_LEAVE}"),
    Mutant(
        "last pixel dropped",
        _N,
        "(m >= uniforms.im2col_m || n",
        "(m + 1u >= uniforms.im2col_m || n",
    ),
    Mutant(
        "last channel dropped",
        _N,
        "im2col_m || n >= uniforms.im2col_n",
        "im2col_m || n + 1u >= uniforms.im2col_n",
    ),
    Mutant("batch ignored in y", _N, "batch * uniforms.im2col_m + m", "m"),
    Mutant(
        "batch stride of y wrong",
        _N,
        "batch * uniforms.im2col_m + m",
        "batch * uniforms.im2col_n + m",
    ),
    Mutant(
        "y written as NCHW",
        _N,
        "batch * uniforms.im2col_m + m) * uniforms.im2col_n + n",
        "batch * uniforms.im2col_n + n) * uniforms.im2col_m + m",
    ),
    Mutant("y one off", _N, "* uniforms.im2col_n + n]", "* uniforms.im2col_n + n + 1u]"),
)

# On an H200 the workgroup's two halves keep step well enough under naga to hide all of these.
_RACE = "a race, which an adapter's timing may hide"

_MAIN = (
    Mutant(
        "surplus workgroups not ignored",
        _N,
        "if (tile >= uniforms.batch * uniforms.m_tiles * uniforms.n_tiles)",
        "if (tile >= 4294967295u)",
    ),
    Mutant("last workgroup ignored", _N, "tile >= uniforms.batch", "tile + 1u >= uniforms.batch"),
    Mutant(
        "second dimension of the dispatch ignored",
        _N,
        "workgroup_id.y * num_workgroups.x + workgroup_id.x",
        "workgroup_id.x",
    ),
    Mutant(
        "dispatch read the other way round",
        _N,
        "workgroup_id.y * num_workgroups.x + workgroup_id.x",
        "workgroup_id.x * num_workgroups.x + workgroup_id.y",
    ),
    Mutant(
        "n_tiles for m_tiles",
        _N,
        "tile / uniforms.n_tiles % uniforms.m_tiles",
        "tile / uniforms.n_tiles % uniforms.n_tiles",
    ),
    Mutant(
        "tiles of one image only",
        _N,
        "let batch = tile / (uniforms.n_tiles * uniforms.m_tiles)",
        "let batch = tile / uniforms.m_tiles",
    ),
    Mutant("tile_n for tile_m", _N, "m_tile * TILE_M", "m_tile * TILE_N"),
    Mutant("tile_m for tile_n", _N, "n_tile * TILE_N", "n_tile * TILE_M"),
    Mutant("last K step lost", _N, "k_tile < uniforms.k_tiles", "k_tile + 1u < uniforms.k_tiles"),
    Mutant("first K step lost", _N, "k_tile = 0u", "k_tile = 1u"),
    Mutant("K steps overlap", _N, "k_tile * TILE_K", "k_tile * (TILE_K - VEC_SIZE)"),
    Mutant("half of each K step", _N, "step < TILE_VECTORS", "step < TILE_VECTORS / 2u"),
    Mutant("vector width forgotten in K", _N, "step * VEC_SIZE", "step"),
    Mutant("vector width forgotten in the tile", _N, "% TILE_VECTORS * VEC_SIZE", "% TILE_VECTORS"),
    Mutant("sums not accumulated", _N, "sums[row] += ", "sums[row] = "),
    Mutant(
        "sums in f16",
        _N,
        "sums[row] += dot(x_values, weight_values);",
        "sums[row] = quantizeToF16(sums[row] + dot(x_values, weight_values));",
    ),
    Mutant("one row of the tile for all", _N, "x_tile[row * TILE_VECTORS + step]", "x_tile[step]"),
    Mutant(
        "tile read transposed",
        _N,
        "x_tile[row * TILE_VECTORS + step]",
        "x_tile[step * TILE_M + row]",
    ),
    Mutant(
        "last row of the tile not staged",
        _N,
        "i < TILE_M * TILE_VECTORS",
        "i < (TILE_M - 1u) * TILE_VECTORS",
    ),
    Mutant(
        "last row of the tile not summed",
        _N,
        "row < TILE_M; row++) {\n                let",
        "row < TILE_M - 1u; row++) {\n                let",
    ),
    Mutant(
        "last row of the tile not stored",
        _N,
        "row < TILE_M; row++) {\n        epilogue",
        "row < TILE_M - 1u; row++) {\n        epilogue",
    ),
    Mutant("barrier before the sums removed", _N, "        workgroupBarrier();\n\n", "\n", _RACE),
    Mutant(
        "barrier after the sums removed",
        _N,
        "        workgroupBarrier();\n    }\n",
        "    }\n",
        _RACE,
    ),
    Mutant(
        "M-major: last column not staged",
        _M,
        "i < TILE_N * TILE_VECTORS",
        "i < (TILE_N - 1u) * TILE_VECTORS",
    ),
    Mutant(
        "M-major: last column not stored",
        _M,
        "column < TILE_N; column++) {\n        epilogue",
        "column < TILE_N - 1u; column++) {\n        epilogue",
    ),
    Mutant(
        "M-major: tile read transposed",
        _M,
        "weight_tile[column * TILE_VECTORS + step]",
        "weight_tile[step * TILE_N + column]",
    ),
    Mutant(
        "M-major: barrier before the sums removed",
        _M,
        "        workgroupBarrier();\n\n",
        "\n",
        _RACE,
    ),
    Mutant("M-major: pixel of the wrong tile", _M, "m_tile * TILE_M", "m_tile * TILE_N"),
)

_ACTIVATIONS = (
    Mutant(
        "clip: slots swapped",
        _N,
        "let lower = uniforms.activation_param_0;\n    let upper = uniforms.activation_param_1;",
        "let lower = uniforms.activation_param_1;\n    let upper = uniforms.activation_param_0;",
    ),
    Mutant(
        "clip: lower bound wins",
        _N,
        "min(max(v, lower), upper)",
        "max(min(v, upper), lower)",
    ),
    Mutant("clip: min for max", _N, "min(max(v, lower), upper)", "min(min(v, lower), upper)"),
    Mutant("clip: no lower bound", _N, "min(max(v, lower), upper)", "min(v, upper)"),
    Mutant("clip: bounds of one sign", _N, "max(v, lower)", "max(v, -upper)"),
    Mutant(
        "hard_sigmoid: slots swapped",
        "vec4-n32x64/hard_sigmoid",
        "alpha * bounded + beta",
        "beta * bounded + alpha",
    ),
    Mutant(
        "hard_sigmoid: no upper bound",
        "vec4-n32x64/hard_sigmoid",
        "min(max(alpha * bounded + beta, 0.0), 1.0)",
        "max(alpha * bounded + beta, 0.0)",
    ),
    Mutant("relu: min for max", "vec4-n32x64/relu", "max(v, 0.0)", "min(v, 0.0)"),
    Mutant(
        "leaky_relu: alpha forgotten",
        "vec4-n32x64/leaky_relu",
        "alpha * min(v, 0.0)",
        "min(v, 0.0)",
    ),
    Mutant(
        "leaky_relu: as prelu of the other side",
        "vec4-n32x64/leaky_relu",
        "max(v, 0.0) + alpha * min(v, 0.0)",
        "alpha * max(v, 0.0) + min(v, 0.0)",
    ),
    Mutant("sigmoid: of -v", "vec4-n32x64/sigmoid", "v >= 0.0", "v < 0.0"),
    Mutant("tanh: no polynomial", "vec4-n32x64/tanh", "a < 0.625", "a < 0.0"),
    Mutant("tanh: polynomial too far", "vec4-n32x64/tanh", "a < 0.625", "a < 1.25"),
    Mutant("tanh: a constant off in its sixth digit", "vec4-n32x64/tanh", "0.3333328", "0.3333428"),
    Mutant("quick_gelu: alpha forgotten", "vec4-n32x64/quick_gelu", "alpha * min", "1.0 * min"),
    Mutant(
        "quick_gelu_unit: the sigmoid alone",
        "vec4-n32x64/quick_gelu_unit",
        "v * (select",
        "(select",
    ),
    Mutant("hard_swish: 5 for 6", "vec4-n32x64/hard_swish", "/ 6.0", "/ 5.0"),
    Mutant("elu: alpha forgotten", "vec4-n32x64/elu", "alpha * select", "select"),
    Mutant("elu: a constant off in its sixth digit", "vec4-n32x64/elu", "0.49999985", "0.49998985"),
    Mutant("gelu: tail of the other side", "vec4-n32x64/gelu", "v < 0.0", "v >= 0.0"),
    Mutant(
        "gelu: sqrt(1/2) off in its sixth digit", "vec4-n32x64/gelu", "0.70710678", "0.70711678"
    ),
    Mutant(
        "gelu_tanh: a constant off in its sixth digit",
        "vec4-n32x64/gelu_tanh",
        "1.5957692",
        "1.5957792",
    ),
    Mutant(
        "gelu_tanh: v^2 for v^3",
        "vec4-n32x64/gelu_tanh",
        "0.044715 * x * x * x",
        "0.044715 * x * x",
    ),
    Mutant("softplus: ln(1 + e) as e", "vec4-n32x64/softplus", "2.0 * (s + s * z * p)", "e"),
    Mutant(
        "softplus: a constant off in its sixth digit",
        "vec4-n32x64/softplus",
        "0.3333321",
        "0.3333421",
    ),
    Mutant("thresholded_relu: >= for >", "vec4-n32x64/thresholded_relu", "v > alpha", "v >= alpha"),
    Mutant("erf: a constant off in its sixth digit", "vec4-n32x64/erf", "1.1283791", "1.1283891"),
    Mutant("erf: sign lost", "vec4-n32x64/erf", "sign(v) * ", ""),
)

# Where sizes are constants and invocations own registers.
_IN_STRIP = "let column = m % PITCH"
_COLUMN = "let column = tile.strip * STRIP_W + m % PITCH"
_LOADED = "            let i = first + load * WORKGROUP_SIZE;\n            if"

_STAGE_X = (
    Mutant("patch: phases swapped", _R, "phase / PHASES_W", "phase % PHASES_W"),
    Mutant("patch: read from another phase", _R, "h % STRIDE_H * PHASES_W + w", "w"),
    Mutant("patch: rows without halo", _R, "PITCH = STRIP_W + HALO_W", "PITCH = STRIP_W"),
    Mutant("patch: halo below forgotten", _R, "TILE_M + HALO_H * PITCH +", "TILE_M +"),
    Mutant("patch: pad above forgotten", _R, " - PAD_TOP", ""),
    Mutant(
        "patch: first strip for all", _R, f"{_COLUMN};\n    let src", f"{_IN_STRIP};\n    let src"
    ),
    Mutant("patch: first window for all", _R, " + window.h * DILATION_H", ""),
    Mutant("patch: first chunk for all", _R, "window.channel + vector", "vector"),
    Mutant(
        "patch: last load of an invocation not stored",
        _R,
        f"load < LOADS; load++) {{\n{_LOADED}",
        f"load < LOADS - 1u; load++) {{\n{_LOADED}",
    ),
    Mutant("patch: loads overstepped", _R, "first += LOADS", "first += (LOADS + 1u)"),
)

_REGISTERS = (
    Mutant("weight of the first chunk for all", _R, "CHANNEL_I + channel_first", "CHANNEL_I"),
    Mutant("weight of the first window for all", _R, "(window_h + row)", "row"),
    Mutant("first channels for all", _R, ", N_VECTORS - 1u)", ", 0u)"),
    Mutant(
        "rest of a chunk among parts of K lost",
        _R,
        "(PATCH_VECTORS + K_SPLIT - 1u) / K_SPLIT",
        "PATCH_VECTORS / K_SPLIT",
    ),
    Mutant("last part of K lost", _R, "part < K_SPLIT", "part + 1u < K_SPLIT"),
    Mutant("parts of K in one place", _R, "(k_part * TILE_M + m_local", "(m_local"),
    Mutant(
        "last pixel of an invocation lost",
        _R,
        "pixel < PIXELS; pixel++) {\n        p",
        "pixel < PIXELS - 1u; pixel++) {\n        p",
    ),
    Mutant("rows of y not bounded", _R, "row >= OUTPUT_H || ", ""),
    Mutant("columns of y not bounded", _R, "column >= OUTPUT_W || ", ""),
    Mutant("channels of y not bounded", _R, " || n >= CHANNEL_O", ""),
    Mutant(
        "strips and images swapped",
        _R,
        "strip / STRIPS, strip % STRIPS",
        "strip % STRIPS, strip / STRIPS",
    ),
    Mutant(
        "surplus workgroups not ignored where sizes are constants",
        _R,
        "index >= uniforms.batch * TILES",
        "index >= 4294967295u",
    ),
)

_EQUIVALENT = (
    Mutant(
        "rows beyond m not zeroed",
        _N,
        "m >= uniforms.im2col_m || k",
        "k",
        "the epilogue drops what they sum to",
    ),
    Mutant(
        "channels beyond n not zeroed",
        _N,
        "n >= uniforms.im2col_n || k",
        "k",
        "the epilogue drops what they sum to",
    ),
)

MUTANTS = (
    *_LOAD_X,
    *_LOAD_WEIGHT,
    *_EPILOGUE,
    *_MAIN,
    *_ACTIVATIONS,
    *_STAGE_X,
    *_REGISTERS,
    *_EQUIVALENT,
)
