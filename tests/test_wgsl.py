"""Tint compiles every variant, through Dawn's Null backend: no GPU, no driver."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import wgpudawn as wgpu  # type: ignore[import-untyped]

from im2col_cli import gpu, manifest, schedule
from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX
from im2col_cli.variant import SUBGROUP_MATRIX, Structure, parse
from tests.conftest import ROOT, full_matrix

GOLDENS = {
    str(path.relative_to(ROOT / "goldens").with_suffix("")): path.read_text()
    for path in sorted((ROOT / "goldens").rglob("*.wgsl"))
}
RECORDS = {
    record["variant"]: record
    for record in json.loads((ROOT / "goldens" / manifest.FILE).read_text())["variants"]
}
F16, F32 = "f16-vec4-n32x64-bias/clip", "f32-vec4-n32x64-bias/clip"
IN_DEFAULT_STRUCTURE = sorted(name for name in RECORDS if name.startswith("f16-vec4-n32x64-bias/"))

Record = dict[str, Any]
Refused = wgpu.GPUValidationError


class Tint:
    """Compiles on a device that has just the features it is given, and WebGPU's default limits."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, ...], Any] = {}

    def device(self, features: Sequence[str]) -> Any:
        key = tuple(features)
        if key not in self._devices:
            adapter = wgpu.gpu.request_adapter_sync()
            assert adapter.info["backend_type"] == "Null"
            self._devices[key] = adapter.request_device_sync(required_features=list(key))
        return self._devices[key]

    def compile(
        self,
        text: str,
        features: Sequence[str],
        layout: object = "auto",
        constants: Mapping[str, int] | None = None,
    ) -> None:
        device = self.device(features)
        module = device.create_shader_module(code=text)
        stage = {"module": module, "entry_point": "main", "constants": constants or {}}
        device.create_compute_pipeline(layout=layout, compute=stage)

    def compile_variant(
        self, structure: Structure, text: str, features: Sequence[str], layout: object = "auto"
    ) -> None:
        """A module alone, where no pipeline fits into default limits."""
        # The Null backend says that its subgroups may have 128 invocations.
        least = 128 if structure.family is SUBGROUP_MATRIX else 1
        constants = schedule.sample(structure, multiple_of=least) if structure.constants else {}
        if constants is None:
            self.device(features).create_shader_module(code=text)
        else:
            self.compile(text, features, layout, constants)

    def layout(self, record: Record, uniform_bytes: int | None = None) -> object:
        """The explicit pipeline layout that a host builds from a record of the manifest."""
        device = self.device(record["features"])
        uniform_bytes = uniform_bytes or record["uniforms"]["size"]
        entries = [
            {
                "binding": binding["binding"],
                "visibility": wgpu.ShaderStage.COMPUTE,
                "buffer": {
                    "type": binding["type"],
                    "min_binding_size": uniform_bytes if binding["type"] == "uniform" else 0,
                },
            }
            for binding in record["bindings"]
        ]
        group = device.create_bind_group_layout(entries=entries)
        return device.create_pipeline_layout(bind_group_layouts=[group])


@pytest.fixture(scope="module")
def tint() -> Iterator[Tint]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WGPU_BACKEND_TYPE", "Null")
        gpu.configure("dawn")  # it lets experimental features through
        yield Tint()


def edited(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def without(record: Record, binding: str) -> Record:
    kept = [entry for entry in record["bindings"] if entry["name"] != binding]
    assert len(kept) == len(record["bindings"]) - 1
    return {**record, "bindings": kept}


def retyped(record: Record, binding: str, buffer_type: str) -> Record:
    bindings = [
        {**entry, "type": buffer_type} if entry["name"] == binding else entry
        for entry in record["bindings"]
    ]
    assert bindings != record["bindings"]
    return {**record, "bindings": bindings}


def test_goldens_and_manifest_hold_the_same_variants() -> None:
    assert len(GOLDENS) == len(GOLDEN_MATRIX)
    assert GOLDENS.keys() == RECORDS.keys()


@pytest.mark.parametrize("features", [(), ("shader-f16",)])
def test_devices_have_the_default_limits_and_no_other_feature(
    tint: Tint, features: tuple[str, ...]
) -> None:
    device = tint.device(features)
    limits = device.limits
    assert limits["max-compute-workgroup-storage-size"] == 16384
    assert limits["max-compute-invocations-per-workgroup"] == 256
    assert limits["max-compute-workgroups-per-dimension"] == 65535
    assert limits["max-storage-buffers-per-shader-stage"] == 8
    assert limits["max-storage-buffer-binding-size"] == 128 << 20
    assert ("shader-f16" in device.features) == ("shader-f16" in features)
    assert "subgroups" not in device.features


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_compiles_with_just_the_features_of_its_record(tint: Tint, name: str) -> None:
    tint.compile_variant(parse(name).structure, GOLDENS[name], RECORDS[name]["features"])


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_fits_the_bindings_of_its_record(tint: Tint, name: str) -> None:
    record = RECORDS[name]
    tint.compile_variant(
        parse(name).structure, GOLDENS[name], record["features"], tint.layout(record)
    )


def test_few_goldens_are_compiled_as_modules_alone() -> None:
    """Those whose partial sums pass 16 KB where workgroups have 128 invocations."""
    matrices = [name for name in GOLDENS if parse(name).structure.family is SUBGROUP_MATRIX]
    alone = {
        parse(name).structure.tile.name
        for name in matrices
        if schedule.sample(parse(name).structure, multiple_of=128) is None
    }
    assert alone == {"s32x32", "s64x16", "s64x32"}
    specialised = [name for name in GOLDENS if parse(name).structure.constants]
    assert all(
        schedule.sample(parse(name).structure) for name in specialised if name not in matrices
    )


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_declares_no_binding_beside_those_of_its_record(name: str) -> None:
    declared = re.findall(r"@group\((\d+)\) @binding\((\d+)\)", GOLDENS[name])
    assert declared == [("0", str(entry["binding"])) for entry in RECORDS[name]["bindings"]]


@pytest.mark.parametrize("name", IN_DEFAULT_STRUCTURE)
def test_tint_wants_just_the_uniform_bytes_of_the_record(tint: Tint, name: str) -> None:
    record = RECORDS[name]
    size = record["uniforms"]["size"]
    too_small = tint.layout(record, size - 4)
    with pytest.raises(Refused, match=rf"\b{size}\b"):
        tint.compile(GOLDENS[name], record["features"], too_small)


def test_full_matrix_compiles(tint: Tint) -> None:
    assert full_matrix().keys() == set(FULL_MATRIX)
    for variant, text in full_matrix().items():
        try:
            tint.compile_variant(variant.structure, text, variant.structure.features)
        except Refused as error:
            pytest.fail(f"{variant.name}: {error}")


def test_undeclared_identifier_is_refused(tint: Tint) -> None:
    text = edited(GOLDENS[F16], "return min(max(v, lower), upper);", "return min(v, highest);")
    with pytest.raises(Refused, match="highest"):
        tint.compile(text, ["shader-f16"])


def test_missing_entry_point_is_refused(tint: Tint) -> None:
    with pytest.raises(Refused, match="main"):
        tint.compile(edited(GOLDENS[F16], "fn main(", "fn start("), ["shader-f16"])


@pytest.mark.parametrize("name", [F16, F32])
def test_workgroup_memory_may_not_pass_16384_bytes(tint: Tint, name: str) -> None:
    features = RECORDS[name]["features"]
    vectors = "array<vec4<f32>, {}>;"
    declared = vectors.format("TILE_M * TILE_VECTORS")
    tint.compile(edited(GOLDENS[name], declared, vectors.format(1024)), features)
    with pytest.raises(Refused, match="16384"):
        tint.compile(edited(GOLDENS[name], declared, vectors.format(1025)), features)


def test_workgroup_may_not_pass_256_invocations(tint: Tint) -> None:
    size = "@workgroup_size({})"
    declared = size.format("WORKGROUP_SIZE")
    tint.compile(edited(GOLDENS[F32], declared, size.format(256)), [])
    with pytest.raises(Refused, match="257"):
        tint.compile(edited(GOLDENS[F32], declared, size.format(257)), [])


def test_f16_is_refused_without_its_feature(tint: Tint) -> None:
    with pytest.raises(Refused, match="f16"):
        tint.compile(GOLDENS[F16], [])


@pytest.mark.parametrize("binding", ["x", "weight", "bias", "y", "uniforms"])
def test_record_that_lacks_a_binding_does_not_fit(tint: Tint, binding: str) -> None:
    layout = tint.layout(without(RECORDS[F16], binding))
    with pytest.raises(Refused):
        tint.compile(GOLDENS[F16], ["shader-f16"], layout)


@pytest.mark.parametrize(
    ("binding", "buffer_type"),
    [("x", "storage"), ("weight", "uniform"), ("y", "read-only-storage"), ("uniforms", "storage")],
)
def test_record_with_another_type_does_not_fit(tint: Tint, binding: str, buffer_type: str) -> None:
    layout = tint.layout(retyped(RECORDS[F16], binding, buffer_type))
    with pytest.raises(Refused):
        tint.compile(GOLDENS[F16], ["shader-f16"], layout)
