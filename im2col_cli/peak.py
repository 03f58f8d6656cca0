"""What an adapter can do at most: multiply-adds, reading memory, starting dispatches.

Each is a small kernel that does nothing else. Its grid grows until a run takes long enough to be
timed. The rates are what these kernels reach, not what a data sheet promises.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

from im2col_cli.gpu import Device, package
from im2col_cli.timing import WARM_UP, passed
from im2col_cli.variant import SUBGROUP_MATRIX

_INVOCATIONS = 256
_MOST_WORKGROUPS = 65_535

# A run takes so many seconds or more, if its grid can be that large.
_LONG = 0.002

# Of a subgroup, and of a matrix that it multiplies: see gpu.Adapter.has_matrices.
_SUBGROUP = 32
_BLOCK = 16

# Multiply-adds of an invocation: turns of the loop, chains that do not wait for each other, values
# of a vector.
_TURNS, _CHAINS, _LANES = 128, 8, 4

# Bytes read: more than caches hold, and no more than a binding does. Software reads slowly.
_BYTES = 128 << 20
_BYTES_CPU = 8 << 20

_DISPATCHES = 512

# No value of a buffer of zeros: the compiler cannot know that, so the work must be done.
_NEVER = 12345


class Peak(NamedTuple):
    """Operations a second, an f32 or f16 multiply-add being two; of matrices of f16 with sums in
    f32, None where the adapter has none. Bytes a second; seconds of a dispatch that does nothing
    and waits for the one before."""

    f32: float
    f16: float | None
    matrices: float | None
    bandwidth: float
    dispatch: float

    def of(self, element_type: str) -> float:
        """The highest rate at which values of the type are multiplied, in operations a second."""
        if element_type == "f32":
            return self.f32
        return max(self.f32, self.f16 or 0.0, self.matrices or 0.0)


def probe(device: Device, warm_up: float = WARM_UP) -> Peak:
    """Measures a device that can be timed. Raises GpuError where it fails."""
    adapter, features = device.adapter, device.handle.features
    matrices = None
    if adapter.has_matrices and all(need in features for need in SUBGROUP_MATRIX.features):
        matrices = _rate(device, _matrix_multiply_adds(), _MATRIX_OPERATIONS, warm_up)
    return Peak(
        _rate(device, _multiply_adds("f32"), _OPERATIONS, warm_up),
        _rate(device, _multiply_adds("f16"), _OPERATIONS, warm_up)
        if "shader-f16" in features
        else None,
        matrices,
        _bandwidth(device, _BYTES_CPU if adapter.is_cpu else _BYTES, warm_up),
        _dispatch(device, warm_up),
    )


_OPERATIONS = 2 * _INVOCATIONS * _TURNS * _CHAINS * _LANES


def _multiply_adds(element_type: str) -> str:
    vector = f"vec{_LANES}<{element_type}>"
    chains = range(_CHAINS)
    start = "".join(
        f"    var a{i} = {vector}({element_type}(index + {i}u) * factor);\n" for i in chains
    )
    steps = "".join(f"        a{i} = fma(a{i}, factors, summands);\n" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    return f"""{"enable f16;" if element_type == "f16" else ""}
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size({_INVOCATIONS})
fn main(@builtin(local_invocation_index) index: u32) {{
    let factor = {element_type}(f32(source[0].x) + 0.5);
    let factors = {vector}(factor);
    let summands = {vector}({element_type}(f32(source[0].y) + 0.25));
{start}    for (var i = 0u; i < {_TURNS}u; i++) {{
{steps}    }}
    if (f32(dot({total}, factors)) == {_NEVER}.0) {{
        result[0] = index;
    }}
}}
"""


_READING = f"""
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size({_INVOCATIONS})
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {{
    var sum = vec4<u32>();
    for (var i = id.x; i < arrayLength(&source); i += workgroups.x * {_INVOCATIONS}u) {{
        sum += source[i];
    }}
    if (sum.x + sum.y + sum.z + sum.w == {_NEVER}u) {{
        result[0] = id.x;
    }}
}}
"""

_EMPTY = f"""
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(1)
fn main() {{
    if (source[0].x == {_NEVER}u) {{
        result[0] = 1u;
    }}
}}
"""

# A subgroup sums so many matrices, down and across.
_DOWN, _ACROSS = 4, 2
_MATRIX_OPERATIONS = 2 * _BLOCK**3 * _DOWN * _ACROSS * _TURNS * (_INVOCATIONS // _SUBGROUP)


def _matrix_multiply_adds() -> str:
    """Matrices have names, as arrays of them are slow."""
    sums = [(m, n) for m in range(_DOWN) for n in range(_ACROSS)]
    declared = "".join(f"    var s{m}{n} = Sum();\n" for m, n in sums)
    loaded = "".join(
        f"    let a{m} = subgroupMatrixLoad<Left, row_major>(&values, {m * 8}u, {_BLOCK}u);\n"
        for m in range(_DOWN)
    )
    loaded += "".join(
        f"    let b{n} = subgroupMatrixLoad<Right, col_major>(&values, {n * 8}u, {_BLOCK}u);\n"
        for n in range(_ACROSS)
    )
    steps = "".join(
        f"        s{m}{n} = subgroupMatrixMultiplyAccumulate(a{m}, b{n}, s{m}{n});\n"
        for m, n in sums
    )
    stored = "".join(
        f"    subgroupMatrixStore<row_major>(&totals, first, s{m}{n}, {_BLOCK}u);\n"
        "    workgroupBarrier();\n"
        f"    total += totals[first + index % {_SUBGROUP}u];\n"
        "    workgroupBarrier();\n"
        for m, n in sums
    )
    return f"""
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

diagnostic(off, chromium.subgroup_matrix_uniformity);

alias Left = subgroup_matrix_left<f16, {_BLOCK}, {_BLOCK}>;
alias Right = subgroup_matrix_right<f16, {_BLOCK}, {_BLOCK}>;
alias Sum = subgroup_matrix_result<f32, {_BLOCK}, {_BLOCK}>;

@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

var<workgroup> values: array<f16, {2 * _BLOCK * _BLOCK}>;
var<workgroup> totals: array<f32, {_BLOCK * _BLOCK * (_INVOCATIONS // _SUBGROUP)}>;

@compute @workgroup_size({_INVOCATIONS})
fn main(@builtin(local_invocation_index) index: u32) {{
    values[index] = f16(f32(source[0].x + index % 7u) * 0.125);
    values[index + {_INVOCATIONS}u] = f16(f32(source[0].y + index % 5u) * 0.125);
    workgroupBarrier();
{loaded}{declared}    for (var i = 0u; i < {_TURNS}u; i++) {{
{steps}    }}
    let first = index / {_SUBGROUP}u * {_BLOCK * _BLOCK}u;
    var total = 0.0;
{stored}    if (total == {_NEVER}.5) {{
        result[0] = index;
    }}
}}
"""


class _Probe:
    """A kernel with its two buffers; frees them at the end."""

    def __init__(self, device: Device, text: str, size: int = 16) -> None:
        self._device = device
        handle, usage = device.handle, package(device.adapter.runtime).BufferUsage
        self._source = handle.create_buffer(size=size, usage=usage.STORAGE)
        self._result = handle.create_buffer(size=16, usage=usage.STORAGE)
        module = handle.create_shader_module(code=text)
        self._pipeline = handle.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        # `auto` binds what the shader reads: all of these read both.
        self._group = handle.create_bind_group(
            layout=self._pipeline.get_bind_group_layout(0),
            entries=[
                {"binding": number, "resource": {"buffer": buffer}}
                for number, buffer in enumerate((self._source, self._result))
            ],
        )

    def __enter__(self) -> Callable[[int, int], float]:
        return self._seconds

    def __exit__(self, *_: object) -> None:
        self._source.destroy()
        self._result.destroy()

    def _seconds(self, workgroups: int, times: int) -> float:
        def work(compute: Any) -> None:
            compute.set_pipeline(self._pipeline)
            compute.set_bind_group(0, self._group)
            for _ in range(times):
                compute.dispatch_workgroups(workgroups)

        return max(passed(self._device, work), 1e-9)


def _rate(device: Device, text: str, operations: int, warm_up: float) -> float:
    """Operations a second, where a workgroup does so many."""

    def work() -> float:
        with _Probe(device, text) as seconds:
            # At full clocks first: a slow start would look like a grid that is large enough.
            workgroups = 4
            best = _least(partial(seconds, workgroups, 1), warm_up)
            while best < _LONG and workgroups < _MOST_WORKGROUPS:
                workgroups = min(_MOST_WORKGROUPS, workgroups * 2)
                best = _least(partial(seconds, workgroups, 1), warm_up / 10)
            return workgroups * operations / best

    return device.attempt("measuring multiply-adds", work)


def _bandwidth(device: Device, size: int, warm_up: float) -> float:
    """Bytes a second."""

    def work() -> float:
        with _Probe(device, _READING, size) as seconds:
            workgroups = size // (16 * _INVOCATIONS * 16)
            times = max(1, min(64, round(_LONG / seconds(workgroups, 1))))
            return size * times / _least(lambda: seconds(workgroups, times), warm_up)

    return device.attempt("measuring reads", work)


def _dispatch(device: Device, warm_up: float) -> float:
    """Seconds of a dispatch that does nothing."""

    def work() -> float:
        with _Probe(device, _EMPTY) as seconds:
            return _least(lambda: seconds(1, _DISPATCHES), warm_up) / _DISPATCHES

    return device.attempt("measuring dispatches", work)


def _least(measure: Callable[[], float], warm_up: float) -> float:
    """The least of what is measured in so many seconds, and after them."""
    start, best = perf_counter(), inf
    while perf_counter() - start < warm_up:
        best = min(best, measure())
    return min(best, measure())
