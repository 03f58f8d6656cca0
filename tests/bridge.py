"""WebGPU in a page by way of im2col's own devices: SwiftShader, Chromium's adapter, has no f16, and
the adapters with f16 that run on CPUs are none that Chromium takes.

What the page does itself stays: it makes the uniforms and inputs, packs the weight, hands over the
constants and the workgroups, and reads and judges y. Compiling and dispatching are im2col's.
"""

import base64
from typing import TYPE_CHECKING, Any

from im2col_cli import kernel
from im2col_cli.gpu import Device
from im2col_cli.variant import parse

if TYPE_CHECKING:
    from playwright.sync_api import Page

_FAKE = """
const encode = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const features = new Set(["shader-f16"]);
const device = {
    features,
    lost: new Promise(() => {}),
    destroy() {},
    pushErrorScope() {},
    popErrorScope: async () => null,
    createShaderModule: ({ label, code }) =>
        ({ name: label, code, getCompilationInfo: async () => ({ messages: [] }) }),
    createBindGroupLayout: () => null,
    createPipelineLayout: () => null,
    createComputePipelineAsync: async ({ compute }) =>
        ({ ...compute.module, constants: compute.constants, getBindGroupLayout: () => null }),
    createBuffer: ({ size }) => ({
        bytes: new Uint8Array(size),
        async mapAsync() { this.bytes = decode(await this.result); },
        getMappedRange() { return this.bytes.buffer; },
        destroy() {},
    }),
    createBindGroup: ({ entries }) => entries,
    createCommandEncoder() {
        const job = {};
        const pass = {
            setPipeline({ name, code, constants }) {
                Object.assign(job, { name, code, constants });
            },
            setBindGroup(_, entries) { job.entries = entries; },
            dispatchWorkgroups(...grid) { job.grid = grid; },
            end() {},
        };
        return {
            beginComputePass: () => pass,
            copyBufferToBuffer(y, _, copy) { job.copy = copy; },
            finish: () => job,
        };
    },
    queue: {
        writeBuffer(buffer, offset, data) { buffer.bytes.set(data, offset); },
        submit([{ name, code, constants, entries, grid, copy }]) {
            const contents = entries.map(({ binding, resource }) =>
                [binding, encode(resource.buffer.bytes)]);
            copy.result = dispatchThere(name, code, constants, contents, grid);
        },
    },
};
const adapter = { features, info: { description: "bridge" }, requestDevice: async () => device };
Object.defineProperty(navigator, "gpu", { value: { requestAdapter: async () => adapter } });
"""


def bridge(page: "Page", device: Device) -> None:
    """Puts the device into the page as its WebGPU."""
    compiled: dict[str, kernel.Kernel] = {}

    def dispatch(
        name: str,
        code: str,
        constants: dict[str, int],
        contents: list[tuple[int, str]],
        grid: list[int],
    ) -> str:
        if code not in compiled:
            compiled[code] = kernel.compile_variant(device, parse(name), code)
        made = compiled[code]
        names = {entry.number: entry.name for entry in made.variant.structure.bindings}
        data = {names[number]: base64.b64decode(text) for number, text in contents}
        return base64.b64encode(_dispatched(made, constants, data, grid)).decode()

    page.expose_function("dispatchThere", dispatch)
    page.evaluate(_FAKE)


def _dispatched(
    made: kernel.Kernel, constants: dict[str, int], data: dict[str, bytes], grid: list[int]
) -> bytes:
    """The bytes of y afterwards, of buffers with that data."""
    pipeline = kernel._pipeline(made, constants)
    handle = made.device.handle
    buffers: dict[str, Any] = {}

    def work() -> bytes:
        group = kernel._bind(made, data, buffers)
        encoder = handle.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(*grid)
        compute.end()
        handle.queue.submit([encoder.finish()])
        return bytes(handle.queue.read_buffer(buffers["y"]))

    try:
        return made.device.attempt(f"running {made.variant.name}", work)
    finally:
        for buffer in buffers.values():
            buffer.destroy()
