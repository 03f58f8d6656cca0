"""`im2col check-enum`: a C++ header's ActivationKind against the registry."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from im2col_cli import cpp_enum
from im2col_cli.activation import ActivationKind
from tests.conftest import Im2col

# In upstream's form (onnxruntime/core/providers/webgpu/nn/fuse_utils.h).
UPSTREAM = """\
// Copyright (c) Microsoft Corporation. All rights reserved.
#pragma once
#include "core/providers/webgpu/program.h"

namespace onnxruntime {
namespace webgpu {

enum class ActivationKind {
  None,
  Relu,
  Sigmoid,
  Clip,
  HardSigmoid,
  LeakyRelu,
  Tanh,
  QuickGelu,
  HardSwish,
  Elu,
  Gelu,
  GeluTanh,
  Softplus,
  ThresholdedRelu,
  Erf,
};

using Activation = struct Activation {
  ActivationKind activation_kind_ = ActivationKind::None;
};
}  // namespace webgpu
}  // namespace onnxruntime
"""


def check(im2col: Im2col, folder: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    path = folder / "fuse_utils.h"
    path.write_text(text)
    return im2col("check-enum", str(path), *arguments)


def enum(*enumerators: str) -> str:
    return "enum class ActivationKind : uint32_t { " + ", ".join(enumerators) + " };"


def camel(kind: ActivationKind) -> str:
    return kind.name.title().replace("_", "")


ALL = [camel(kind) for kind in ActivationKind]


def test_upstream(im2col: Im2col, tmp_path: Path) -> None:
    code, out, err = check(im2col, tmp_path, UPSTREAM)
    assert (code, err) == (0, "")
    assert out.endswith("15 kinds, all the same\n")


@pytest.mark.parametrize(
    "text",
    [
        enum(*(f"k{name}" for name in ALL)),
        enum(*(kind.name for kind in ActivationKind)),
        enum(*(f"{camel(kind)} = {kind.value}" for kind in ActivationKind)),
        enum(*(f"{camel(kind)} = 0x{kind.value:X}u" for kind in ActivationKind)),
        enum(*(f"{camel(kind)} = 0b{kind.value:b}" for kind in ActivationKind)),
        enum(*(f"{camel(kind)} = 0{kind.value:o}" for kind in ActivationKind)),
        enum(*ALL[:-1], "Erf = 1'4,"),
        enum("kNone = 0", "kRelu = 1", *ALL[2:]),
        "enum struct ActivationKind\n{" + ",\n".join(ALL) + ",\n};",
        "enum ActivationKind : unsigned { " + ", ".join(ALL) + " };",
        "enum class [[nodiscard]] ActivationKind { " + ", ".join(ALL) + " };",
        "enum class ActivationKind; enum class Other { A = 3, B }; " + enum(*ALL),
        enum(*ALL) + " enum class ActivationKindOfOthers { None };",
        "/* enum class ActivationKind { Wrong }; */ " + enum(*ALL),
        "// enum class ActivationKind { Wrong };\n" + enum(*ALL),
        'auto s = "enum class ActivationKind { \\" Wrong };"; ' + enum(*ALL),
        enum("None /* = 7 */", *ALL[1:-1], "Erf // the last = 20\n"),
        "#define X(a) a\n" + enum(*ALL).replace(" ", "\r\n"),
        "\ufeff// Grüße\n" + enum(*ALL),
    ],
)
def test_forms_that_are_the_same(text: str, im2col: Im2col, tmp_path: Path) -> None:
    assert check(im2col, tmp_path, text)[0] == 0


def swapped(one: int, other: int) -> list[str]:
    names = list(ALL)
    names[one], names[other] = names[other], names[one]
    return names


@pytest.mark.parametrize(
    ("text", "differing"),
    [
        (enum(*swapped(1, 2)), {"RELU": "another number", "SIGMOID": "another number"}),
        (enum(*ALL[:-1]), {"ERF": "not in the header"}),
        (enum(*ALL, "kMish"), {"kMish": "only in the header"}),
        (enum(*ALL[:-1], "Erf = 20"), {"ERF": "another number"}),
        (enum(*ALL[:-1], "Erf = Relu"), {"ERF": "another number"}),
        (enum(*ALL[:-1], "Erf = -14"), {"ERF": "another number"}),
        (
            enum("None", "Sigmoid = 2", "Relu = 1", "Clip = 3", *ALL[4:]),
            {"RELU": "out of order", "SIGMOID": "out of order"},
        ),
        ("enum class ActivationKind {};", dict.fromkeys(
            (kind.name for kind in ActivationKind), "not in the header")),
    ],
)  # fmt: skip
def test_differences(text: str, differing: dict[str, str], im2col: Im2col, tmp_path: Path) -> None:
    code, out, err = check(im2col, tmp_path, text, "--format", "json")
    assert (code, err) == (1, "")
    kinds = json.loads(out)["kinds"]
    assert {kind["name"]: kind["what"] for kind in kinds if kind["what"]} == differing


def test_shows_both_sides(im2col: Im2col, tmp_path: Path) -> None:
    code, out, err = check(im2col, tmp_path, enum(*swapped(1, 2), "kMish"))
    assert (code, err) == (1, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "RELU 1 2 another number" in lines
    assert "kMish - 15 only in the header" in lines
    assert out.endswith("3 of 16 kinds differ\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "defines no enum ActivationKind"),
        ("enum class Activation { None };", "defines no enum ActivationKind"),
        ("enum class ActivationKind;", "defines no enum ActivationKind"),
        ("/* " + enum(*ALL), "defines no enum ActivationKind"),
        (enum(*ALL) + enum(*ALL), "more than one"),
        ("enum class ActivationKind { None, Relu", "has no end"),
        (enum("None = sizeof(int)"), "no value that is understood"),
        (enum("None = 1 + 1"), "no value that is understood"),
        (enum("None = 09"), "invalid literal"),
        (enum("None ="), "no enumerator that is understood"),
        (enum("None Relu"), "no enumerator that is understood"),
        (enum("None", "None"), "stands there twice"),
        (enum("None = \x1b[31m"), r"\x1b"),
        (enum("None = " + "9" * 100_000), "no value that is understood"),
    ],
)
def test_headers_that_cannot_be_compared(
    text: str, why: str, im2col: Im2col, tmp_path: Path
) -> None:
    code, out, err = check(im2col, tmp_path, text)
    assert (code, out) == (3, "")
    assert why in err
    assert "\x1b" not in err
    assert len(err) < 500


def test_no_header(im2col: Im2col, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.h", Path("/dev/zero")):
        assert im2col("check-enum", str(path)).code == 3


def test_bytes_that_are_no_text(im2col: Im2col, tmp_path: Path) -> None:
    path = tmp_path / "fuse_utils.h"
    path.write_bytes(b"\xff\xfe\x00 // " + bytes(range(256)) + b"\n" + enum(*ALL).encode())
    assert im2col("check-enum", str(path)).code == 0


@pytest.mark.parametrize(
    "unit",
    [
        "/*", "/* */", '"', '"\\', "enum ", "enum ActivationKind {", "enum class ",
        "enum ActivationKind { None };", "{", "}", "0'", "'", "a,", "//", "= ", "0x",
    ],
)  # fmt: skip
def test_no_header_takes_long(unit: str) -> None:
    for text in (unit * 30_000, "enum ActivationKind { " + unit * 30_000 + " };"):
        start = time.process_time()
        with suppress(ValueError):
            cpp_enum.parse(text)
        assert time.process_time() - start < 2
