"""The gate is checked itself: each edit to templates, registry or goldens turns it red.

What it names must be the very files that the edit breaks.
"""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from im2col_cli import activation, golden, matrix
from im2col_cli.activation import ACTIVATIONS, ActivationKind, Parameter
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import Variant
from tests.conftest import Im2col

DEFAULT = "f16-vec4-n32x64-bias"
RELU = f"{DEFAULT}/relu.wgsl"
MANIFEST = "manifest.json"

KERNEL = "im2col_matmul.wgsl.jinja"
REGISTERS_KERNEL = "im2col_registers.wgsl.jinja"
MATRICES_KERNEL = "im2col_subgroup_matrix.wgsl.jinja"
CLIP = "activations/clip.wgsl.jinja"
SIGMOID = "activations/sigmoid.wgsl.jinja"
QUICK_GELU = "activations/quick_gelu.wgsl.jinja"
QUICK_GELU_UNIT = "activations/quick_gelu_unit.wgsl.jinja"
ERFC = "im2col/erfc.wgsl.jinja"

Edit = Callable[[Path, pytest.MonkeyPatch], object]


class Mutation(NamedTuple):
    """An edit, and either the goldens that it breaks or the template that it makes useless."""

    name: str
    edit: Edit
    goldens: frozenset[str] = frozenset()
    template: str = ""


def goldens(chosen: Callable[[Variant], bool]) -> frozenset[str]:
    """The files of the variants chosen, with the manifest that holds their hashes."""
    return frozenset({MANIFEST, *(variant.file for variant in GOLDEN_MATRIX if chosen(variant))})


def with_activation(*names: str) -> frozenset[str]:
    return goldens(lambda variant: variant.activation.name in names)


EVERY_GOLDEN = goldens(lambda variant: True)
WITH_BIAS = goldens(lambda variant: variant.structure.has_bias)
WITHOUT_BIAS = goldens(lambda variant: not variant.structure.has_bias)
N_MAJOR = goldens(lambda variant: variant.structure.tile.kind == "n")
M_MAJOR = goldens(lambda variant: variant.structure.tile.kind == "m")
IM2COL = goldens(lambda variant: variant.structure.family.name == "im2col")
REGISTERS = goldens(lambda variant: variant.structure.family.name == "registers")
MATRICES = goldens(lambda variant: variant.structure.family.name == "subgroup-matrix")
SPECIALIZED = REGISTERS | MATRICES


def in_template(name: str, old: str, new: str) -> Edit:
    def edit(project: Path, _: pytest.MonkeyPatch) -> None:
        path = project / "templates" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return edit


def in_golden(name: str, change: Callable[[bytes], bytes]) -> Edit:
    def edit(project: Path, _: pytest.MonkeyPatch) -> None:
        path = project / "goldens" / name
        data = path.read_bytes()
        assert change(data) != data
        path.write_bytes(change(data))

    return edit


def without(name: str) -> Edit:
    return lambda project, _: (project / name).unlink()


def with_file(name: str, text: str) -> Edit:
    def edit(project: Path, _: pytest.MonkeyPatch) -> None:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)

    return edit


def in_registry(name: str, **changes: Any) -> Edit:
    def edit(_: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setitem(ACTIVATIONS, name, dataclasses.replace(ACTIVATIONS[name], **changes))
        rows = ACTIVATIONS.values()
        patch.setattr(activation, "_SUPPORTED_KINDS", frozenset(row.kind for row in rows))
        rebuilt = tuple(
            dataclasses.replace(variant, activation=ACTIVATIONS[variant.activation.name])
            for variant in GOLDEN_MATRIX
        )
        patch.setitem(matrix.MATRICES, "golden", rebuilt)

    return edit


def without_row(name: str) -> Edit:
    return lambda _, patch: patch.delitem(ACTIVATIONS, name)


def without_variant(file: str) -> Edit:
    rest = tuple(variant for variant in GOLDEN_MATRIX if variant.file != file)
    return lambda _, patch: patch.setitem(matrix.MATRICES, "golden", rest)


def flipped(position: int) -> Callable[[bytes], bytes]:
    """Turns over the lowest bit of one byte."""

    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[position] ^= 1
        return bytes(changed)

    return flip


MIN, MAX = ACTIVATIONS["clip"].parameters
ALPHA = ACTIVATIONS["hard_sigmoid"].parameters[0]
SLOPE = ACTIVATIONS["quick_gelu"].parameters

LOWER = "let lower = uniforms.activation_param_0;"
UPPER = "let upper = uniforms.activation_param_1;"

MUTATIONS = [
    # Epilogue and activations
    Mutation(
        "min and max the wrong way round",
        in_template(CLIP, "min(max(v, lower), upper)", "max(min(v, lower), upper)"),
        with_activation("clip"),
    ),
    Mutation(
        "bounds the wrong way round",
        in_template(CLIP, "min(max(v, lower), upper)", "min(max(v, upper), lower)"),
        with_activation("clip"),
    ),
    Mutation(
        "slots read in another order",
        in_template(CLIP, f"{LOWER}\n    {UPPER}", f"{UPPER}\n    {LOWER}"),
        template=CLIP,
    ),
    Mutation(
        "slots swapped",
        in_template(
            CLIP, f"{LOWER}\n    let upper", f"{LOWER.replace('lower', 'upper')}\n    let lower"
        ),
        with_activation("clip"),
    ),
    Mutation(
        "one slot read twice",
        in_template(CLIP, "activation_param_1", "activation_param_0"),
        template=CLIP,
    ),
    Mutation(
        "undeclared slot",
        in_template(SIGMOID, "exp(-abs(v))", "exp(-abs(v) * uniforms.activation_param_0)"),
        template=SIGMOID,
    ),
    Mutation(
        "activation not called, with bias",
        in_template(KERNEL, "activation(sum + load_bias(n))", "sum + load_bias(n)"),
        WITH_BIAS & IM2COL,
    ),
    Mutation(
        "activation not called, without bias",
        in_template(KERNEL, "activation(sum))", "sum)"),
        WITHOUT_BIAS & IM2COL,
    ),
    Mutation(
        "activation before bias",
        in_template(KERNEL, "activation(sum + load_bias(n))", "activation(sum) + load_bias(n)"),
        WITH_BIAS & IM2COL,
    ),
    Mutation("bias dropped", in_template(KERNEL, "sum + load_bias(n)", "sum"), WITH_BIAS & IM2COL),
    Mutation(
        "bias dropped where sizes are constants",
        in_template("patch/epilogue.wgsl.jinja", "sum + load_bias(n)", "sum"),
        WITH_BIAS & SPECIALIZED,
    ),
    Mutation(
        "activation not called where sizes are constants",
        in_template("patch/epilogue.wgsl.jinja", "activation(sum))", "sum)"),
        WITHOUT_BIAS & SPECIALIZED,
    ),
    Mutation(
        "bias read from the next channel",
        in_template("im2col/load_bias.wgsl.jinja", "bias[n]", "bias[n + 1u]"),
        WITH_BIAS,
    ),
    Mutation(
        "store without rounding",
        in_template(
            "im2col/store_y.wgsl.jinja", "{{ variant.structure.element_type }}(value)", "value"
        ),
        IM2COL,
    ),
    Mutation(
        "wrong activation included",
        in_template(
            KERNEL, "{% include variant.activation.template %}", f'{{% include "{CLIP}" %}}'
        ),
        IM2COL - with_activation("clip") | {MANIFEST},
    ),
    Mutation(
        "activation file deleted",
        without("templates/activations/tanh.wgsl.jinja"),
        template="tanh",
    ),
    Mutation(
        "activation file added",
        with_file("templates/activations/mish.wgsl.jinja", "fn activation(v: f32) -> f32 {\n}\n"),
        template="mish.wgsl.jinja",
    ),
    Mutation(
        "activation file emptied",
        with_file("templates/activations/tanh.wgsl.jinja", ""),
        template="activations/tanh.wgsl.jinja",
    ),
    Mutation(
        "coefficient of what two activations include",
        in_template(ERFC, "0.9984925", "0.9984926"),
        with_activation("gelu", "erf"),
    ),
    Mutation(
        "what two activations include deleted", without(f"templates/{ERFC}"), template=f"{ERFC}'"
    ),
    Mutation(
        "what two activations include not included",
        in_template("activations/erf.wgsl.jinja", f'{{% include "{ERFC}" %}}\n', ""),
        with_activation("erf"),
    ),
    Mutation(
        "comparison turned round",
        in_template("activations/thresholded_relu.wgsl.jinja", "v > alpha", "v < alpha"),
        with_activation("thresholded_relu"),
    ),
    Mutation(
        "form without slots with the slot of the other",
        in_template(QUICK_GELU_UNIT, "exp(-abs(v))", "exp(-abs(uniforms.activation_param_0 * v))"),
        template=QUICK_GELU_UNIT,
    ),
    Mutation(
        "form with a slot without it",
        in_template(QUICK_GELU, "uniforms.activation_param_0", "1.702"),
        template=QUICK_GELU,
    ),
    # Kernel
    Mutation("barrier removed", in_template(KERNEL, "workgroupBarrier();", ""), IM2COL),
    Mutation(
        "barrier of registers removed",
        in_template(REGISTERS_KERNEL, "workgroupBarrier();", ""),
        REGISTERS,
    ),
    Mutation(
        "matrices multiplied the other way round",
        in_template(MATRICES_KERNEL, "row_major", "col_major"),
        MATRICES,
    ),
    Mutation(
        "patch too small",
        in_template("patch/constants.wgsl.jinja", "+ HALO_W;", "+ 0u;"),
        SPECIALIZED,
    ),
    Mutation(
        "phase forgotten",
        in_template("patch/stage_x.wgsl.jinja", " + phase / PHASES_W", ""),
        SPECIALIZED,
    ),
    Mutation(
        "constant renamed",
        in_template("patch/constants.wgsl.jinja", "override {{ name }}", "override X_{{ name }}"),
        SPECIALIZED,
    ),
    Mutation(
        "kernel template of a family deleted",
        without(f"templates/{REGISTERS_KERNEL}"),
        template=REGISTERS_KERNEL,
    ),
    Mutation(
        "N-major sums the wrong tile",
        in_template(KERNEL, "x_tile[row * TILE_VECTORS + step]", "x_tile[row + step]"),
        N_MAJOR,
    ),
    Mutation(
        "M-major stores the wrong column",
        in_template(KERNEL, "n_first + column, sums[column]", "n_first + column, sums[0]"),
        M_MAJOR,
    ),
    Mutation(
        "padding ignored",
        in_template("im2col/load_x.wgsl.jinja", " - uniforms.pads", ""),
        IM2COL,
    ),
    Mutation(
        "kernel template deleted", without(f"templates/{KERNEL}"), template=f"templates/{KERNEL}"
    ),
    Mutation(
        "included template deleted",
        without("templates/im2col/load_bias.wgsl.jinja"),
        template="im2col/load_bias.wgsl.jinja",
    ),
    Mutation(
        "unknown name",
        in_template(KERNEL, "{{ variant.structure.invocations }}", "{{ variant.workgroups }}"),
        template=f"templates/{KERNEL}:",
    ),
    # Registry
    Mutation(
        "kind renumbered", in_registry("relu", kind=ActivationKind.ELU), with_activation("relu")
    ),
    Mutation(
        "kind of another", in_registry("relu", kind=ActivationKind.TANH), with_activation("relu")
    ),
    Mutation(
        "parameter renamed",
        in_registry("clip", parameters=(Parameter("low", MIN.default), MAX)),
        with_activation("clip"),
    ),
    Mutation(
        "default changed",
        in_registry("leaky_relu", parameters=(Parameter("alpha", 0.1),)),
        frozenset({MANIFEST}),
    ),
    Mutation("operator renamed", in_registry("tanh", operator="Tan"), frozenset({MANIFEST})),
    Mutation(
        "parameter dropped",
        in_registry("hard_sigmoid", parameters=(ALPHA,)),
        template="hard_sigmoid",
    ),
    Mutation(
        "kind with as many slots as another of it",
        in_registry("gelu_tanh", kind=ActivationKind.GELU),
        with_activation("gelu_tanh"),
    ),
    Mutation(
        "parameter given to the form without",
        in_registry("quick_gelu_unit", parameters=SLOPE),
        template="quick_gelu_unit",
    ),
    Mutation("row deleted", without_row("relu"), template="relu.wgsl.jinja"),
    Mutation(
        "row of a form deleted",
        without_row("quick_gelu_unit"),
        template="quick_gelu_unit.wgsl.jinja",
    ),
    Mutation("variant dropped", without_variant(RELU), frozenset({RELU, MANIFEST})),
    # Goldens
    Mutation("golden deleted", without(f"goldens/{RELU}"), frozenset({RELU})),
    Mutation("golden truncated", in_golden(RELU, lambda data: data[:1000]), frozenset({RELU})),
    Mutation("golden emptied", in_golden(RELU, lambda data: b""), frozenset({RELU})),
    Mutation("first byte flipped", in_golden(RELU, flipped(0)), frozenset({RELU})),
    Mutation("byte flipped", in_golden(RELU, flipped(3000)), frozenset({RELU})),
    Mutation("final newline flipped", in_golden(RELU, flipped(-1)), frozenset({RELU})),
    Mutation(
        "line endings flipped",
        in_golden(RELU, lambda data: data.replace(b"\n", b"\r\n")),
        frozenset({RELU}),
    ),
    Mutation(
        "one line ending flipped",
        in_golden(RELU, lambda data: data.replace(b"\n", b"\r\n", 1)),
        frozenset({RELU}),
    ),
    Mutation(
        "space at a line's end",
        in_golden(RELU, lambda d: d.replace(b";\n", b"; \n", 1)),
        frozenset({RELU}),
    ),
    Mutation("final newline dropped", in_golden(RELU, lambda data: data[:-1]), frozenset({RELU})),
    Mutation(
        "final newline doubled", in_golden(RELU, lambda data: data + b"\n"), frozenset({RELU})
    ),
    Mutation(
        "byte order mark", in_golden(RELU, lambda data: b"\xef\xbb\xbf" + data), frozenset({RELU})
    ),
    Mutation("golden added", with_file("goldens/old/clip.wgsl", ""), frozenset({"old/clip.wgsl"})),
    Mutation(
        "file added",
        with_file(f"goldens/{DEFAULT}/notes.txt", ""),
        frozenset({f"{DEFAULT}/notes.txt"}),
    ),
    Mutation("manifest deleted", without(f"goldens/{MANIFEST}"), frozenset({MANIFEST})),
    Mutation(
        "manifest edited",
        in_golden(MANIFEST, lambda data: data.replace(b'"offset": 80', b'"offset": 84', 1)),
        frozenset({MANIFEST}),
    ),
    Mutation("manifest emptied", in_golden(MANIFEST, lambda data: b"{}\n"), frozenset({MANIFEST})),
]


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[golden.Outcome]:
    """What the last check found, besides what it printed."""
    found: list[golden.Outcome] = []
    check = golden.check

    def listen(*arguments: Any, **options: Any) -> list[golden.Outcome]:
        found[:] = check(*arguments, **options)
        return list(found)

    monkeypatch.setattr(golden, "check", listen)
    return found


def named(out: str) -> set[str]:
    return set(re.findall(r"goldens/([\w./-]+\.\w+)", out))


def test_the_unedited_project_is_green(im2col: Im2col) -> None:
    assert im2col("check-goldens").code == 0
    outcomes = json.loads(im2col("check-goldens", "--format", "json").out)["outcomes"]
    assert {outcome["status"] for outcome in outcomes} == {"match"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_gate_goes_red(
    mutation: Mutation,
    project: Path,
    im2col: Im2col,
    outcomes: list[golden.Outcome],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutation.edit(project, monkeypatch)
    code, out, err = im2col("check-goldens")
    if mutation.template:
        assert (code, out) == (3, "")
        assert mutation.template in err
    else:
        assert code == 1
        assert set() < named(out) <= mutation.goldens
        failing = {outcome.path for outcome in outcomes if outcome.status != golden.MATCH}
        assert failing == mutation.goldens
