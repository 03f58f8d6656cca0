"""Adapters for tests. Where there is none, what needs one skips and says why; with
IM2COL_REQUIRE_ADAPTER=1 it fails instead, so that no gate is green for want of a driver.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from im2col_cli.errors import GpuError
from im2col_cli.gpu import Device, open_device
from im2col_cli.variant import FEATURES
from tests.conftest import ROOT

# The Vulkan driver that Debian's chromium brings: the one on CPUs that Dawn accepts. It has no f16.
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")

needs_swiftshader = pytest.mark.skipif(
    not SWIFTSHADER.is_file(), reason="there is no SwiftShader (Debian: chromium)"
)


def device(element_type: str) -> Device:
    """A device of its own that runs variants of the element type; or the test ends here."""
    try:
        return open_device(FEATURES[element_type])
    except GpuError as error:
        reason = f"needs a WebGPU adapter for {element_type}: {error.message}"
    if os.environ.get("IM2COL_REQUIRE_ADAPTER") == "1":
        pytest.fail(f"{reason} (IM2COL_REQUIRE_ADAPTER=1)", pytrace=False)
    pytest.skip(reason)


def im2col_with_driver(
    driver: Path, *arguments: str, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """im2col in a process whose only Vulkan driver is the one that `driver` describes."""
    search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": search,
        "VK_DRIVER_FILES": str(driver),
        "VK_ICD_FILENAMES": str(driver),
    }
    return subprocess.run(
        [sys.executable, "-m", "im2col_cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
