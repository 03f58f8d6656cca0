"""Times of dispatches on a device, by timestamp queries around chains of them."""

import struct
from collections.abc import Callable
from time import perf_counter
from typing import Any

from im2col_cli.gpu import Device, package
from im2col_cli.kernel import Loaded

# What a device must have to be timed.
FEATURE = "timestamp-query"

# Seconds of work before a measurement: a GPU that has idled runs at low clocks, several times
# slower.
WARM_UP = 0.2

# A chain takes about so many seconds, so that starts and clocks do not count; and at most so many
# dispatches, so that a driver does not take it for hung.
_CHAIN = 0.002
_LONGEST = 1024


class Timer:
    """Times a loaded convolution again and again; each measurement warms up first."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._count = 1

    def measure(self, warm_up: float = WARM_UP) -> float:
        """Seconds of one dispatch, within a chain. Raises GpuError where the device fails."""
        device = self._loaded.kernel.device
        return device.attempt("timing", lambda: self._measured(device, warm_up))

    def _measured(self, device: Device, warm_up: float) -> float:
        start = perf_counter()
        each = self._chain(device)
        while perf_counter() - start < warm_up:
            each = self._chain(device)
            self._count = max(1, min(_LONGEST, round(_CHAIN / each)))
        return self._chain(device)

    def _chain(self, device: Device) -> float:
        seconds = passed(device, lambda compute: self._loaded.dispatch(compute, self._count))
        return max(seconds, 1e-9) / self._count


def passed(device: Device, work: Callable[[Any], None]) -> float:
    """Seconds that the device spends on a compute pass with what `work` adds to it."""
    handle = device.handle
    usage = package(device.adapter.runtime).BufferUsage
    queries = handle.create_query_set(type="timestamp", count=2)
    stamps = handle.create_buffer(size=16, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
    encoder = handle.create_command_encoder()
    compute = encoder.begin_compute_pass(
        timestamp_writes={
            "query_set": queries,
            "beginning_of_pass_write_index": 0,
            "end_of_pass_write_index": 1,
        }
    )
    work(compute)
    compute.end()
    encoder.resolve_query_set(queries, 0, 2, stamps, 0)
    handle.queue.submit([encoder.finish()])
    first, last = struct.unpack("<2Q", handle.queue.read_buffer(stamps))
    stamps.destroy()
    return float(last - first) * 1e-9
