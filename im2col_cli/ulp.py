"""Distances between numbers in units in the last place (ULP) of an element type."""

from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES: dict[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32}


def dtype(element_type: str) -> type[np.floating[Any]]:
    return _DTYPES[element_type]


def ulp(values: npt.NDArray[np.float64], element_type: str) -> npt.NDArray[np.float64]:
    """The distance between neighbours of the element type around each value; never zero."""
    info = np.finfo(dtype(element_type))
    _, exponents = np.frexp(values)
    exponents = np.where(values == 0, info.minexp, np.maximum(exponents - 1, info.minexp))
    units: npt.NDArray[np.float64] = np.ldexp(1.0, exponents - info.nmant)
    return units


def rounded(values: npt.NDArray[np.float64], element_type: str) -> npt.NDArray[np.float64]:
    """The nearest numbers of the element type, as float64."""
    with np.errstate(over="ignore"):
        return values.astype(dtype(element_type)).astype(np.float64)
