"""Matrix products that leave tensor cores idle."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View, tensors_of
from otel_torchprof.recording import EventKind, InputValue, TensorInput

# Kernels of cuBLAS and CUTLASS that multiply 32-bit floats without tensor cores.
_FP32_KERNEL = re.compile(r"(?<!convolve_)sgemm|f32f32_f32f32", re.IGNORECASE)
_TENSOR_CORES = re.compile(r"tf32|tensorop|s1688|f16", re.IGNORECASE)
_SINCE_AMPERE = re.compile(r"ampere_|hopper_|sm(?:80|86|89|90|100|120)_|cutlass_80_")
_AMPERE = 8  # compute capability
_ALIGNMENT = 8  # elements of 16 bits


@pattern(
    "fp32-matmul",
    title="Matrix products run in full 32-bit precision on a device with TF32",
    needs=(Need.DEVICE,),
    why="Tensor cores multiply in TF32 several times as fast, with 10 bits of mantissa and all of the range.",
    found="Kernels for 32-bit products that use no tensor cores (`sgemm`, `f32f32_f32f32`), on devices "
    "of compute "
    f"capability {_AMPERE} and above, as the trace says or the name of the kernel does.",
    advice="Allow TF32, or train in bfloat16 with autocast, where that precision is enough.",
    example='torch.set_float32_matmul_precision("high")',
    limits="Whether the model bears the precision is not known. Not said of ROCm.",
    url="https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
)
def fp32_matmul(view: View) -> Iterator[Match]:
    full = view.of_kind(EventKind.KERNEL) & view.where_name(
        lambda name: _FP32_KERNEL.search(name) and not _TENSOR_CORES.search(name)
    )
    if not _all_since_ampere(view):
        full &= view.where_name(_SINCE_AMPERE.search)
    kernels = np.flatnonzero(full)
    ops = view.launched_by(kernels)
    # Convolutions may use TF32 unless told otherwise; that cuDNN chose another kernel is its own choice.
    product = ~view.is_at(view.where_name(lambda name: "conv" in name), ops)
    kernels, ops = kernels[product], ops[product]
    rows, place = np.unique(np.where(ops == NONE, kernels, ops), return_inverse=True)
    cost_ns = np.zeros(len(rows), dtype=np.int64)
    np.add.at(cost_ns, place.reshape(-1), view.duration_ns[kernels])
    detail = f"{len(kernels)} kernels without tensor cores"
    yield Match(rows, Level.HIGH, detail, cost_ns=cost_ns, saving=(0.3, 0.85))


def _all_since_ampere(view: View) -> bool:
    """Whether the trace describes its devices, and all of them are NVIDIA's and have TF32."""
    kineto = view.recording.metadata.get("kineto")
    devices = kineto.get("deviceProperties") if isinstance(kineto, dict) else None
    if not isinstance(devices, list) or not devices:
        return False
    majors = [device.get("computeMajor") if isinstance(device, dict) else None for device in devices]
    is_rocm = view.where_name(lambda name: name.startswith("hip")).any()
    return not is_rocm and all(isinstance(major, int) and major >= _AMPERE for major in majors)


@pattern(
    "unaligned-half-matmul",
    title="Sizes of a 16-bit matrix product are no multiples of 8",
    needs=(Need.SHAPES, Need.DEVICE),
    why="Tensor cores read 16 bytes at once; other sizes take slower kernels, or none of the tensor cores.",
    found="`mm`, `addmm`, `bmm` and `baddbmm` of float16 or bfloat16 on a device, one of which has "
    f"rows, as they lie in memory, of a length that is no multiple of {_ALIGNMENT}.",
    advice="Pad the size that is off: most often a vocabulary, a number of classes or a hidden size.",
    example="nn.Linear(hidden, 8 * math.ceil(classes / 8))",
    limits="Newer versions of cuBLAS lose less by it. The length of a sequence or batch cannot always be "
    "chosen.",
    url="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#use-mixed-precision-and-amp",
)
def unaligned_half_matmul(view: View) -> Iterator[Match]:
    products = view.ops_named("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
    products = products[view.device_ns[products] > 0]
    unaligned = view.where_inputs(products, _is_unaligned)
    # Of equal sizes not all need be of one type.
    half = [_is_half(view.inputs(row)) for row in unaligned.tolist()]
    rows = unaligned[np.array(half, dtype=bool)]
    detail = "sizes that are no multiples of 8"
    yield Match(rows, Level.MEDIUM, detail, cost_ns=view.device_ns[rows], saving=(0.0, 0.5))


def _is_unaligned(inputs: list[InputValue]) -> bool:
    factors = tensors_of(inputs)[-2:]
    return any(_contiguous_size(tensor) % _ALIGNMENT for tensor in factors)


def _contiguous_size(matrix: TensorInput) -> int:
    """The size along which neighbours lie side by side; of a matrix in no known order, its rows."""
    if matrix.strides is not None and len(matrix.sizes) >= 2 and matrix.strides[-1] != 1:
        return matrix.sizes[-2]
    return matrix.sizes[-1] if matrix.sizes else 0


def _is_half(inputs: list[InputValue]) -> bool:
    factors = tensors_of(inputs)[-2:]
    return bool(factors) and all(tensor.dtype in {"float16", "bfloat16"} for tensor in factors)
