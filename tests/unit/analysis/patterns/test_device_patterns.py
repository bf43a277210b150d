"""Anti-patterns that only programs on a GPU have, in recordings made by hand with names of real kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from otel_torchprof.analysis.device_use import device_uses
from otel_torchprof.analysis.patterns import Finding, Level, find_patterns
from otel_torchprof.recording import EventKind
from tests.support.device_programs import US, DeviceProgram

STEPS = 4
MIB = 1 << 20
COPY_PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
COPY_PINNED = "Memcpy HtoD (Pinned -> Device)"
SGEMM = "ampere_sgemm_128x64_tn"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(cutlass::Params)"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>()"
FROM_NHWC = "void nhwcToNchwKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(int)"

Step = Callable[[DeviceProgram], None]


def findings_of(pattern: str, step: Step, *, compute_major: int | None = None) -> list[Finding]:
    """What is found of one pattern, which was looked for, in a few steps."""
    program = DeviceProgram(compute_major=compute_major)
    for _ in range(STEPS):
        with program.step():
            step(program)
    report = find_patterns(program.finish())
    assert pattern not in {one.pattern for one in report.not_checked}
    return [finding for finding in report.findings if finding.pattern == pattern]


def move(program: DeviceProgram, sizes: list[int], copy: str = COPY_PAGEABLE, size_bytes: int = 4) -> None:
    tensor = ("float32", sizes)
    with program.op("aten::to", tensor), program.op("aten::_to_copy", tensor), program.op("aten::copy_"):
        program.copy(copy, size_bytes)
        if copy == COPY_PAGEABLE:
            program.runtime("cudaStreamSynchronize")


def zeros_then_to(program: DeviceProgram) -> None:
    program.call("aten::zeros", [100, 100])
    move(program, [100, 100])


def zeros_then_move_another(program: DeviceProgram) -> None:
    program.call("aten::zeros", [100, 100])
    move(program, [64, 3])


def zeros_on_the_device(program: DeviceProgram) -> None:
    with program.op("aten::zeros", [100, 100]):
        program.kernel("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >()")
    move(program, [100, 100])


def test_filled_on_the_cpu_and_moved() -> None:
    (found,) = findings_of("extra-device-copy", zeros_then_to)
    assert (found.confidence, found.count, found.place.op) == (Level.HIGH, STEPS, "aten::to")
    assert findings_of("extra-device-copy", zeros_then_move_another) == []
    assert findings_of("extra-device-copy", zeros_on_the_device) == []


def test_copies_of_pageable_memory() -> None:
    (found,) = findings_of("pageable-copy", lambda program: move(program, [64], COPY_PAGEABLE, 2 * MIB))
    assert (found.confidence, found.count, found.cost_bytes) == (Level.HIGH, STEPS, STEPS * 2 * MIB)
    assert findings_of("pageable-copy", lambda program: move(program, [64], COPY_PINNED, 2 * MIB)) == []
    assert findings_of("pageable-copy", lambda program: move(program, [64], COPY_PAGEABLE, 2_000)) == []


def test_a_model_is_moved_once() -> None:
    program = DeviceProgram()
    for _ in range(20):
        move(program, [1024, 1024], COPY_PAGEABLE, 4 * MIB)
    with program.step():
        program.kernel(TF32)
    assert "pageable-copy" not in {finding.pattern for finding in find_patterns(program.finish()).findings}


def reads_back(program: DeviceProgram, times: int) -> None:
    for _ in range(times):
        program.kernel(TF32, us=50)
        with program.op("aten::item"), program.op("aten::_local_scalar_dense"):
            program.copy("Memcpy DtoH (Device -> Pageable)", 4, us=1)
            program.runtime("cudaStreamSynchronize")
        program.pause(20)
    program.kernel(TF32, us=50)


def test_values_read_back() -> None:
    (found,) = findings_of("synchronizing-read", lambda program: reads_back(program, 3))
    assert (found.confidence, found.count, found.count_per_step) == (Level.HIGH, STEPS * 3, 3.0)
    # The device stands still while the thread does something else and then launches: 20 us of pause, the ends
    # of both ops, the launch.
    assert found.cost_ns >= STEPS * 3 * 20 * US
    assert found.cost_ns < STEPS * 3 * 30 * US
    assert findings_of("synchronizing-read", lambda program: reads_back(program, 1)) == []


def test_reads_of_cpu_tensors_wait_for_nothing() -> None:
    def step(program: DeviceProgram) -> None:
        program.kernel(TF32)
        for _ in range(10):
            program.call("aten::item")

    assert findings_of("synchronizing-read", step) == []


def test_waiting_for_the_device() -> None:
    def waits(program: DeviceProgram) -> None:
        program.kernel(TF32, us=100)
        program.runtime("cudaDeviceSynchronize")

    (found,) = findings_of("device-synchronize", waits)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS - 1)  # nothing follows the last


def test_the_profiler_may_wait_at_the_end() -> None:
    program = DeviceProgram()
    for _ in range(STEPS):
        with program.step():
            program.kernel(TF32)
    program.runtime("cudaDeviceSynchronize")
    assert find_patterns(program.finish()).findings == ()


def multiplies(kernel: str, op: str = "aten::mm") -> Step:
    def step(program: DeviceProgram) -> None:
        with program.op(op, ("float32", [64, 64]), ("float32", [64, 64])):
            program.kernel(kernel, us=200)

    return step


def test_products_without_tensor_cores() -> None:
    (found,) = findings_of("fp32-matmul", multiplies(SGEMM))
    assert (found.confidence, found.severity, found.cost_ns) == (Level.HIGH, Level.HIGH, STEPS * 200 * US)
    assert (found.saving.low_ns, found.saving.high_ns) == (STEPS * 60 * US, STEPS * 170 * US)
    assert findings_of("fp32-matmul", multiplies(TF32)) == []
    convolution = multiplies("ampere_sgemm_32x128_nn", "aten::cudnn_convolution")
    assert findings_of("fp32-matmul", convolution) == []


@pytest.mark.parametrize(("compute_major", "found"), [(None, 0), (7, 0), (8, 1)])
def test_an_older_kernel_says_nothing_of_the_device(compute_major: int | None, found: int) -> None:
    older = multiplies("volta_sgemm_64x64_nn")
    assert len(findings_of("fp32-matmul", older, compute_major=compute_major)) == found


def half_product(rows: int, inner: int, columns: int, dtype: str = "bfloat16") -> Step:
    def step(program: DeviceProgram) -> None:
        with program.op("aten::mm", (dtype, [rows, inner]), (dtype, [inner, columns])):
            program.kernel(TF32, us=100)

    return step


def test_sizes_that_tensor_cores_do_not_take() -> None:
    (found,) = findings_of("unaligned-half-matmul", half_product(64, 512, 1001))
    assert (found.confidence, found.count, found.cost_ns) == (Level.MEDIUM, STEPS, STEPS * 100 * US)
    assert findings_of("unaligned-half-matmul", half_product(64, 512, 1000)) == []
    assert findings_of("unaligned-half-matmul", half_product(141, 512, 512)) == []  # a length of text
    assert findings_of("unaligned-half-matmul", half_product(64, 512, 1001, "float32")) == []


def test_sizes_do_not_matter_on_the_cpu() -> None:
    def step(program: DeviceProgram) -> None:
        program.kernel(TF32)
        program.call("aten::mm", ("bfloat16", [64, 512]), ("bfloat16", [512, 1001]))

    assert findings_of("unaligned-half-matmul", step) == []


def test_convolutions_that_convert_layouts() -> None:
    def converts(program: DeviceProgram) -> None:
        with program.op("aten::cudnn_convolution"):
            program.kernel(TO_NHWC)
            program.kernel(TF32)
            program.kernel(FROM_NHWC)

    (found,) = findings_of("channels-last-mismatch", converts)
    assert (found.confidence, found.cost_ns) == (Level.HIGH, STEPS * 2 * 10 * US)
    assert findings_of("channels-last-mismatch", multiplies(TF32, "aten::cudnn_convolution")) == []


def optimizes(op: str, count: int, *, on_device: bool = True) -> Step:
    def step(program: DeviceProgram) -> None:
        program.kernel(TF32)
        with program.op("Optimizer.step#AdamW.step", kind=EventKind.USER):
            for _ in range(count):
                with program.op(op):
                    if on_device:
                        program.kernel("void at::native::vectorized_elementwise_kernel<4>()", us=1)

    return step


def test_parameters_updated_one_by_one() -> None:
    (found,) = findings_of("single-tensor-optimizer", optimizes("aten::add_", 60))
    assert (found.confidence, found.count) == (Level.HIGH, STEPS)
    assert found.detail == "about 60 ops in each step of the optimizer"
    assert findings_of("single-tensor-optimizer", optimizes("aten::add_", 60, on_device=False)) == []
    assert findings_of("single-tensor-optimizer", optimizes("aten::add_", 10)) == []
    assert findings_of("single-tensor-optimizer", optimizes("aten::_foreach_add_", 60)) == []


def test_lists_of_parameters_where_fused_exists() -> None:
    (found,) = findings_of("unfused-optimizer", optimizes("aten::_foreach_add_", 12))
    assert (found.confidence, found.count) == (Level.MEDIUM, STEPS)
    assert findings_of("unfused-optimizer", optimizes("aten::_fused_adamw_", 1)) == []


def test_memory_asked_of_the_driver_in_every_step() -> None:
    def thrashes(program: DeviceProgram) -> None:
        program.runtime("cudaMalloc", us=100)
        program.kernel(TF32)
        program.runtime("cudaFree", us=100)

    (found,) = findings_of("allocator-thrash", thrashes)
    assert (found.confidence, found.count) == (Level.HIGH, (STEPS - 2) * 2)


def test_the_first_steps_may_fill_the_cache() -> None:
    program = DeviceProgram()
    for number in range(STEPS):
        with program.step():
            if number < 2:
                program.runtime("cudaMalloc", us=100)
            program.kernel(TF32)
    assert find_patterns(program.finish()).findings == ()


def test_what_need_not_be_copied_need_not_be_pinned() -> None:
    program = DeviceProgram()
    for _ in range(STEPS):
        with program.step():
            program.call("aten::zeros", [512, 1024])
            move(program, [512, 1024], COPY_PAGEABLE, 2 * MIB)
    (found,) = find_patterns(program.finish()).findings
    assert (found.pattern, found.also) == ("extra-device-copy", ("pageable-copy",))


def test_norms_read_back_one_by_one_are_not_said_twice() -> None:
    def step(program: DeviceProgram) -> None:
        for _ in range(12):
            with program.op("aten::linalg_vector_norm"):
                program.kernel(TF32)
            with program.op("aten::item"):
                program.runtime("cudaStreamSynchronize")

    program = DeviceProgram()
    for _ in range(STEPS):
        with program.step():
            step(program)
    (found,) = find_patterns(program.finish()).findings
    assert (found.pattern, found.also) == ("per-parameter-norm", ("synchronizing-read",))


def tiny_kernels(program: DeviceProgram, *, wait_us: int = 0, kernel_us: int = 3) -> None:
    """Twenty ops, one every 12 us, each with a kernel."""
    for _ in range(20):
        with program.op("aten::add"):
            program.pause(9)
            program.kernel("vectorized_elementwise_kernel", us=kernel_us)
        if wait_us:
            program.runtime("cudaStreamSynchronize", wait_us)


def test_kernels_that_are_done_before_the_next_is_launched() -> None:
    (found,) = findings_of("launch-bound", tiny_kernels)
    # Before each but the first: 12 us from end of launch to end of launch, without the 3 us of the kernel;
    # 1 us more between steps.
    assert (found.confidence, found.count, found.place.op) == (Level.HIGH, STEPS * 20 - 1, "aten::add")
    assert found.cost_ns == ((STEPS * 20 - 1) * 9 + STEPS - 1) * US
    assert (
        found.detail == f"{STEPS * 20 - 1} of {STEPS * 20} kernels were launched when the device had run dry"
    )
    assert found.saving.high_ns < found.cost_ns


def test_kernels_that_keep_the_device_busy_are_launched_in_time() -> None:
    assert findings_of("launch-bound", lambda program: tiny_kernels(program, kernel_us=30)) == []


def test_a_device_that_is_waited_for_is_no_fault_of_launching() -> None:
    assert findings_of("launch-bound", lambda program: tiny_kernels(program, wait_us=5)) == []


def test_a_few_late_kernels_are_well() -> None:
    def step(program: DeviceProgram) -> None:
        tiny_kernels(program, kernel_us=2)
        for _ in range(30):
            program.kernel(SGEMM, us=100)

    assert findings_of("launch-bound", step) == []


def test_what_is_late_for_another_reason_is_told_apart() -> None:
    def step(program: DeviceProgram) -> None:
        tiny_kernels(program)
        program.runtime("cudaDeviceSynchronize")
        program.kernel("vectorized_elementwise_kernel", us=3)

    program = DeviceProgram()
    for _ in range(STEPS):
        with program.step():
            step(program)
    recording = program.finish()
    (found,) = (one for one in find_patterns(recording).findings if one.pattern == "launch-bound")
    late, launched = STEPS * 21 - 1, STEPS * 21
    assert found.detail == (
        f"{late} of {launched} kernels were launched when the device had run dry, {late - STEPS} of them "
        "without a wait or a longer pause before"
    )
    (use,) = device_uses(recording)
    assert (use.late_kernels, use.launched_kernels) == (late, launched)


def test_recording_python_calls_delays_launches_too() -> None:
    def step(program: DeviceProgram) -> None:
        for name in ("forward", "backward"):
            with program.op(name, kind=EventKind.PYTHON):
                tiny_kernels(program)

    (found,) = findings_of("launch-bound", step)
    assert (found.confidence, found.count) == (Level.MEDIUM, STEPS * 40 - 1)
