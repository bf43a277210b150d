"""The text of docs/metrics.md: every metric, and a query for each question."""

from __future__ import annotations

from otel_torchprof.metrics.collective_metrics import TOP_COLLECTIVES
from otel_torchprof.semconv_metrics import (
    COLLECTIVE_DURATION,
    COLLECTIVE_WAIT,
    COMPILE_RECOMPILATIONS,
    CPU_COUNT,
    DATALOADER_WAIT,
    DEVICE_BUSY_TIME,
    DEVICE_MEMORY_LIMIT,
    DEVICE_MEMORY_USAGE,
    EVENTS_DROPPED,
    EVENTS_RECORDED,
    EXPORT_DROPPED_RECORDINGS,
    EXPORT_FAILED_SPANS,
    EXPORT_RECORDINGS,
    EXPORT_SIZE,
    EXPORT_SPANS,
    KERNEL_DURATION,
    KERNEL_LAUNCH_DELAY,
    KERNEL_LAUNCHES,
    KERNEL_TIME,
    MEMCPY_SIZE,
    MEMCPY_TIME,
    MEMORY_OOM,
    METRICS,
    OP_CALLS,
    OP_DURATION,
    OP_SELF_TIME,
    OP_TIME,
    OVERHEAD,
    PATTERN_FINDINGS,
    PYTHON_GC_PAUSE,
    RECORDER_STATE,
    SHORT_BOUNDS_S,
    STEP_BOUNDS_S,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    STEP_SKIPPED,
    TEXTS_REDACTED,
    TOP_NAMES,
    Metric,
)

# By metric, in PromQL, with the names that the metrics have in Prometheus.
QUERIES = {
    OP_CALLS: "topk(10, sum by (torch_op_name) (rate(torch_op_calls_total[5m])))",
    OP_TIME: "topk(10, sum by (torch_op_name) (rate(torch_op_time_seconds_total[5m])))",
    OP_SELF_TIME: "sum by (torch_phase) (rate(torch_op_self_time_seconds_total[5m]))",
    OP_DURATION: (
        "histogram_quantile(0.99, sum by (torch_op_name, le) (rate(torch_op_duration_seconds_bucket[5m])))"
    ),
    KERNEL_LAUNCHES: "topk(10, sum by (torch_kernel_name) (rate(torch_kernel_launches_total[5m])))",
    KERNEL_TIME: "topk(10, sum by (torch_kernel_name) (rate(torch_kernel_time_seconds_total[5m])))",
    KERNEL_DURATION: (
        "histogram_quantile(0.99, sum by (torch_kernel_name, le) "
        "(rate(torch_kernel_duration_seconds_bucket[5m])))"
    ),
    KERNEL_LAUNCH_DELAY: (
        "histogram_quantile(0.5, sum by (instance, cuda_device_index, le) "
        "(rate(torch_kernel_launch_delay_seconds_bucket[5m])))"
    ),
    COLLECTIVE_DURATION: (
        "sum by (torch_collective_name, torch_collective_group) "
        "(rate(torch_collective_duration_seconds_sum[5m]))"
    ),
    COLLECTIVE_WAIT: "bottomk(1, sum by (instance) (rate(torch_collective_wait_seconds_sum[5m])))",
    MEMCPY_TIME: "sum by (torch_memcpy_kind) (rate(torch_memcpy_time_seconds_total[5m]))",
    MEMCPY_SIZE: "sum by (torch_memcpy_kind) (rate(torch_memcpy_size_bytes_total[5m]))",
    DEVICE_BUSY_TIME: '1 - rate(torch_device_busy_time_seconds_total{torch_device_work="any"}[5m])',
    DEVICE_MEMORY_USAGE: 'torch_device_memory_usage_bytes{torch_memory_state="peak"}',
    DEVICE_MEMORY_LIMIT: (
        "torch_device_memory_limit_bytes - on (instance, cuda_device_index) "
        'torch_device_memory_usage_bytes{torch_memory_state="reserved"}'
    ),
    MEMORY_OOM: "increase(torch_memory_oom_total[1h]) > 2",
    STEP_DURATION: (
        "histogram_quantile(0.95, sum by (torch_step_phase, le) "
        "(rate(torch_step_duration_seconds_bucket[5m])))"
    ),
    DATALOADER_WAIT: (
        "sum by (instance) (rate(torch_dataloader_wait_seconds_sum[5m])) "
        "/ sum by (instance) (rate(torch_step_duration_seconds_sum[5m]))"
    ),
    STEP_LAST_TIMESTAMP: "time() - torch_step_last_timestamp_seconds",
    STEP_NUMBER: "min by (job) (torch_step_number)",
    STEP_SKIPPED: "sum by (job) (increase(torch_step_skipped_total[30m]))",
    COMPILE_RECOMPILATIONS: "increase(torch_compile_recompilations_total[15m])",
    PYTHON_GC_PAUSE: "sum by (torch_python_gc_generation) (rate(torch_python_gc_pause_seconds_total[5m]))",
    CPU_COUNT: "sum by (torch_cpu_counter) (rate(torch_cpu_count_total[5m]))",
    PATTERN_FINDINGS: "topk(10, sum by (torch_pattern_name) (increase(torch_pattern_findings_total[1h])))",
    EVENTS_RECORDED: "rate(torchprof_events_recorded_total[5m])",
    EVENTS_DROPPED: "sum by (torchprof_reason) (rate(torchprof_events_dropped_total[5m]))",
    TEXTS_REDACTED: "sum by (torchprof_reason) (torchprof_texts_redacted_total)",
    OVERHEAD: "max by (job) (torchprof_overhead_ratio)",
    RECORDER_STATE: "count by (torchprof_state) (torchprof_state == 1)",
    EXPORT_SPANS: "sum by (job) (rate(torchprof_export_spans_total[15m]))",
    EXPORT_SIZE: "sum by (job) (rate(torchprof_export_size_bytes_total[15m]))",
    EXPORT_FAILED_SPANS: "sum by (torchprof_reason) (increase(torchprof_export_failed_spans_total[15m]))",
    EXPORT_RECORDINGS: "sum by (job) (increase(torchprof_export_recordings_total[1h]))",
    EXPORT_DROPPED_RECORDINGS: (
        "sum by (torchprof_reason) (increase(torchprof_export_dropped_recordings_total[1h]))"
    ),
}

_SHORT_BOUNDS = f"from {SHORT_BOUNDS_S[0] * 1e6:.2g} us to {SHORT_BOUNDS_S[-1]:.0f} s"
_STEP_BOUNDS = f"from {STEP_BOUNDS_S[0] * 1e3:.0f} ms to {STEP_BOUNDS_S[-1]:.0f} s"

_INTRODUCTION = """\
# Metrics

<!-- Made from src/otel_torchprof/metrics/page.py by `python -m otel_torchprof.metrics.page`: change that. -->

What a running program counts all the time, and what `otel-torchprof replay IN --metrics` makes of any
recording or trace ([converting](converting.md)). Where metrics go, and how to switch them, is in
[configuration](configuration.md#metrics).

Kernels, copies, collectives and busy times are those of recordings that hold work on devices. All else a
running program has by default, but for what the table calls opt-in: histograms of single operators and
kernels, which are many series (`OP_HISTOGRAMS`, `replay --durations`), and findings of anti-patterns
(`PATTERNS`).
"""

_SERIES = f"""\
## How many series

A rank makes fewer than 1,500 time series with the defaults, on every trace that we know, most ranks a few
hundred. In Prometheus a histogram is one for each bucket, its sum and its count.

- **Names**: the {TOP_NAMES} busiest operators, by their own time, and the {TOP_NAMES} busiest kernels
  have series of their own; all others together are `other`. In a running program half of the places go to
  the names that are the busiest when metrics are collected first. The others go to names that come later
  and are among the busiest at two collections in a row. Once all are taken, a name that has been more than
  twice as busy as the least busy of them, since the program began, gets that one's place: whatever is in
  `other` has been less than twice as busy as anything that has a name. No counter ever falls or jumps: what a
  name did before it had a place stays in `other`, and its own series begins at zero; what it does after it
  lost it goes to `other`, and its series ends. So rates over all names always add up to that of everything.
- **Kernels** go by the qualified name of their function, which is also the name of their span: without
  types, template arguments, parameters and anonymous namespaces; without hashes, addresses and long
  numbers; without what Triton appends to say what it specialized (`_0d1d2de`). A kernel of CUTLASS goes
  by the name that its template argument has.
- **Collectives**: the {TOP_COLLECTIVES} pairs of a name and a process group that take the most time have
  their own series.
- **Groups that are not known** are left out: a step without a known phase has no `torch.step.phase`.
"""

_PHASES = """\
## Phases

`torch.phase` of an operator follows from what encloses it on its thread, itself included:

| phase | when |
|---|---|
| `backward` | of what begins a backward or an optimizer's step, the innermost is a function of a backward |
| `optimizer` | the innermost is `Optimizer.step#...` or `Optimizer.zero_grad#...` of `torch.optim` |
| `forward` | there is none, and one has a sequence number of autograd, or began in evaluation or inference |
| `other` | none of these: input, logging, what runs without gradients |

Scopes that the program marks (`record_function`) count as operators. The time that an operator has for
itself (`torch.op.self_time`) is without the operators and scopes in it, but with calls of CUDA's runtime
and with Python: it adds up to the time of the outermost ones. Asynchronous operators take nothing from
what began them. `torch.op.time` of an operator that calls itself counts the inner call twice.
"""

_VALUES = f"""\
## What the values are

- **Sampling**: with `METRICS_SAMPLING=auto` the operators of one step in N are counted, and each stands
  for N. N follows from what counting costs, measured as the program runs: with some operators before the
  first step, and by how much longer counted steps take than the others. Which step of a block of N it is,
  is drawn at random before the block begins. So the mean of an estimate is the true value, and over many
  steps it comes close to it; over a few steps the counters of operators move in leaps. Everything else is
  counted whole, and of recordings all is.
- **Sums** are cumulative since counting began, or since the recording did. A name that got its place later
  has its own start.
- **Histograms** have upper bounds by powers of two: {_SHORT_BOUNDS}, and of steps and waits
  {_STEP_BOUNDS}. Exponential buckets, up to 160, go out instead where the exporter prefers them.
- **`torch.kernel.launch_delay`** is zero where the kernel began before the call that launched it was over.
- **`torch.collective.wait`** needs sizes of messages: of recordings with `record_shapes`, or that say so
  of the kernel.
- **`torch.device.busy_time`** counts a moment once, however many streams were at work; `any` is less than
  the sum of its parts where they overlap.
"""


def render_page() -> str:
    """The text of docs/metrics.md."""
    lines = [
        _INTRODUCTION,
        "## All metrics",
        "",
        "| metric | instrument, unit | attributes | series a rank, at most | meaning |",
        "|---|---|---|---|---|",
        *(_row(metric) for metric in METRICS),
        "",
        "## Questions",
        "",
        "Names as they are in Prometheus, scraped or sent through a Collector.",
        "",
        "| question | query |",
        "|---|---|",
        *(f"| {metric.question} | `{QUERIES[metric.name]}` |" for metric in METRICS),
        "",
        _SERIES,
        _PHASES,
    ]
    return "\n".join([*lines, _VALUES])


def _row(metric: Metric) -> str:
    attributes = ", ".join(f"`{name}`" for name in metric.attributes)
    series = f"{metric.series} (opt-in)" if metric.is_opt_in else metric.series
    return f"| `{metric.name}` | {metric.kind}, {metric.unit} | {attributes} | {series} | {metric.meaning} |"


if __name__ == "__main__":
    print(render_page(), end="")
