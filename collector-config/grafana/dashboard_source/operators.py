"""Where the time of threads and devices goes: operators, kernels, copies, collectives, counters."""

from __future__ import annotations

from dashboard_source.panels import Dashboard, Panel, Query, Row

# Times are shares of one thread or device: sums over ranks would say nothing of a single one.
_RANK_COUNT = "scalar(count(torch_step_number{@ranks}))"

_OPERATORS = Row(
    "Operators",
    [
        Panel(
            "timeseries",
            "Self time of operators",
            "Where does the time of the CPU threads go? Share of one rank's time, the ten longest names.",
            [
                Query(
                    "topk(10, sum by (torch_op_name)"
                    f" (rate(torch_op_self_time_seconds_total{{@ranks}}[@rate])) / {_RANK_COUNT})",
                    "{{torch_op_name}}",
                )
            ],
            unit="percentunit",
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Self time by phase",
            "Is it forward, backward or the optimizer?",
            [
                Query(
                    "sum by (torch_phase) (rate(torch_op_self_time_seconds_total{@ranks}[@rate]))"
                    f" / {_RANK_COUNT}",
                    "{{torch_phase}}",
                )
            ],
            unit="percentunit",
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Calls a second",
            "How often does the program call what? Very many short calls cost more than what they compute.",
            [
                Query(
                    f"topk(10, sum by (torch_op_name) (rate(torch_op_calls_total{{@ranks}}[@rate]))"
                    f" / {_RANK_COUNT})",
                    "{{torch_op_name}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            "timeseries",
            "Duration of a call, 95 %",
            "Are a few calls slow, or all of them? Only where the histograms of operators are switched on.",
            [
                Query(
                    "topk(10, histogram_quantile(0.95, sum by (le, torch_op_name)"
                    " (rate(torch_op_duration_seconds_bucket{@ranks}[@rate]))))",
                    "{{torch_op_name}}",
                )
            ],
            unit="s",
        ),
        Panel(
            "table",
            "Operators in the time shown",
            "Which operators are worth a look? All ranks together.",
            [
                Query(
                    "sum by (torch_op_name) (increase(torch_op_self_time_seconds_total{@ranks}[$__range]))"
                ),
                Query("sum by (torch_op_name) (increase(torch_op_time_seconds_total{@ranks}[$__range]))"),
                Query("sum by (torch_op_name) (increase(torch_op_calls_total{@ranks}[$__range]))"),
                Query(
                    "sum by (torch_op_name) (increase(torch_op_time_seconds_total{@ranks}[$__range]))"
                    " / sum by (torch_op_name) (increase(torch_op_calls_total{@ranks}[$__range]))"
                ),
            ],
            columns=(("self time", "s"), ("time", "s"), ("calls", "short"), ("mean", "s")),
            width=24,
        ),
    ],
)

_KERNELS = Row(
    "Kernels",
    [
        Panel(
            "timeseries",
            "Time of kernels",
            "Which kernels take the time of the device? Share of one device's time, the ten longest names.",
            [
                Query(
                    "topk(10, avg by (torch_kernel_name)"
                    " (rate(torch_kernel_time_seconds_total{@ranks}[@rate])))",
                    "{{torch_kernel_name}}",
                )
            ],
            unit="percentunit",
            stacked=True,
        ),
        Panel(
            "timeseries",
            "Launches a second",
            "How many kernels run, and which? Tens of thousands a second want CUDA graphs, or torch.compile.",
            [
                Query(
                    "topk(10, avg by (torch_kernel_name) (rate(torch_kernel_launches_total{@ranks}[@rate])))",
                    "{{torch_kernel_name}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            "timeseries",
            "From launch to start",
            "Does the device wait for the program (near zero), or does it have work queued (long)?",
            [
                Query(
                    f"histogram_quantile({quantile}, sum by (le)"
                    " (rate(torch_kernel_launch_delay_seconds_bucket{@ranks}[@rate])))",
                    legend,
                )
                for quantile, legend in ((0.5, "median"), (0.95, "95 %"))
            ],
            unit="s",
        ),
        Panel(
            "timeseries",
            "Duration of a kernel",
            "Is a kernel slower than it was? The mean; and 95 %, where its histogram is switched on.",
            [
                Query(
                    "topk(10, sum by (torch_kernel_name)"
                    " (rate(torch_kernel_time_seconds_total{@ranks}[@rate]))"
                    " / sum by (torch_kernel_name)"
                    " (rate(torch_kernel_launches_total{@ranks}[@rate])))",
                    "{{torch_kernel_name}}",
                ),
                Query(
                    "topk(5, histogram_quantile(0.95, sum by (le, torch_kernel_name)"
                    " (rate(torch_kernel_duration_seconds_bucket{@ranks}[@rate]))))",
                    "{{torch_kernel_name}} 95 %",
                ),
            ],
            unit="s",
        ),
    ],
)

_TRANSFERS = Row(
    "Copies and communication",
    [
        Panel(
            "timeseries",
            "Copied bytes",
            "How much is copied, and in which direction?",
            [
                Query(
                    "sum by (torch_memcpy_kind) (rate(torch_memcpy_size_bytes_total{@ranks}[@rate]))",
                    "{{torch_memcpy_kind}}",
                )
            ],
            unit="Bps",
        ),
        Panel(
            "timeseries",
            "Time of copies",
            "How long do devices copy? Share of one device's time.",
            [
                Query(
                    "avg by (torch_memcpy_kind) (rate(torch_memcpy_time_seconds_total{@ranks}[@rate]))",
                    "{{torch_memcpy_kind}}",
                )
            ],
            unit="percentunit",
        ),
        Panel(
            "timeseries",
            "Duration of collectives, 95 %",
            "Which communication takes the time?",
            [
                Query(
                    "histogram_quantile(0.95, sum by (le, torch_collective_name, torch_collective_group)"
                    " (rate(torch_collective_duration_seconds_bucket{@ranks}[@rate])))",
                    "{{torch_collective_name}} {{torch_collective_group}}",
                )
            ],
            unit="s",
        ),
        Panel(
            "timeseries",
            "Of that, waiting for the last rank",
            "Is communication slow, or do ranks come late? Share of the collectives' time.",
            [
                Query(
                    "sum by (torch_collective_name)"
                    " (rate(torch_collective_wait_seconds_sum{@ranks}[@rate]))"
                    " / sum by (torch_collective_name)"
                    " (rate(torch_collective_duration_seconds_sum{@ranks}[@rate]))",
                    "{{torch_collective_name}}",
                )
            ],
            unit="percentunit",
        ),
    ],
)

_COUNTERS = Row(
    "Processor",
    [
        Panel(
            "timeseries",
            "Counters of the processor and the kernel",
            "Do memory, page faults or the scheduler hold up the CPU? Events of COUNTERS, in captured steps.",
            [
                Query(
                    "sum by (torch_cpu_counter) (rate(torch_cpu_count_total{@ranks}[@rate]))",
                    "{{torch_cpu_counter}}",
                )
            ],
            unit="cps",
            width=12,
        ),
        Panel(
            "traces",
            "Long kernels in captured steps",
            "In which step, and under which operator, does a kernel take long?",
            [
                Query(
                    '{ span.torch.event.kind = "kernel" && resource.service.name =~ "$job"'
                    " && duration > 10ms }"
                )
            ],
            width=12,
        ),
    ],
)

OPERATORS = Dashboard(
    "torchprof-operators",
    "PyTorch: operators and kernels",
    "Where does the time of threads and devices go?",
    [_OPERATORS, _KERNELS, _TRANSFERS, _COUNTERS],
)
