"""The page one opens first: does the job run, how fast, and what does it wait for?"""

from __future__ import annotations

from dashboard_source.panels import Dashboard, Panel, Query, Row

_NOW = Row(
    "Now",
    [
        Panel(
            "stat",
            "Ranks",
            "How many ranks report?",
            [Query("count by (job) (torch_step_number{@ranks})", "{{job}}")],
            width=3,
        ),
        Panel(
            "stat",
            "Step",
            "How far is it?",
            [Query("max by (job) (torch_step_number{@ranks})", "{{job}}")],
            width=3,
        ),
        Panel(
            "stat",
            "Since the last step",
            "Does it still make steps? Longer than ten usual steps is a hang, a checkpoint or an evaluation.",
            [Query("time() - max by (job) (torch_step_last_timestamp_seconds{@ranks})", "{{job}}")],
            unit="s",
            width=3,
            warn=60,
            alarm=300,
        ),
        Panel(
            "stat",
            "Step time",
            "How long does a step take on average?",
            [
                Query(
                    "sum by (job) (rate(torch_step_duration_seconds_sum{@ranks}[@rate]))"
                    " / sum by (job) (rate(torch_step_duration_seconds_count{@ranks}[@rate]))",
                    "{{job}}",
                )
            ],
            unit="s",
            width=3,
        ),
        Panel(
            "stat",
            "Waiting for data",
            "What share of the steps' time is waiting for the DataLoader?",
            [
                Query(
                    "sum by (job) (rate(torch_dataloader_wait_seconds_sum{@ranks}[@rate]))"
                    " / sum by (job) (rate(torch_step_duration_seconds_sum{@ranks}[@rate]))",
                    "{{job}}",
                )
            ],
            unit="percentunit",
            width=3,
            warn=0.1,
            alarm=0.2,
        ),
        Panel(
            "stat",
            "Device busy",
            "Are the devices, which cost the money, at work?",
            [
                Query(
                    "avg by (job) (sum by (job, instance, cuda_device_index)"
                    ' (rate(torch_device_busy_time_seconds_total{@ranks, torch_device_work="any"}[@rate])))',
                    "{{job}}",
                )
            ],
            unit="percentunit",
            width=3,
            warn=0.8,
            alarm=0.5,
        ),
        Panel(
            "stat",
            "Out of memory",
            "How often did a request for memory fail in the time shown?",
            [Query("sum by (job) (increase(torch_memory_oom_total{@ranks}[$__range]))", "{{job}}")],
            width=3,
            warn=1,
            alarm=3,
        ),
        Panel(
            "stat",
            "Firing alerts",
            "Is anything wrong by the rules of alerts.yml?",
            [Query('count(ALERTS{alertname=~"Torch.*", alertstate="firing", @job}) or vector(0)', "alerts")],
            width=3,
            warn=1,
            alarm=2,
        ),
    ],
)

_STEPS = Row(
    "Steps",
    [
        Panel(
            "timeseries",
            "Step time: median, 95 %, 99 %",
            "How long do steps take, and the slow ones? Each dot is a captured step and leads to its trace.",
            [
                Query(
                    f"histogram_quantile({quantile}, sum by (le)"
                    " (rate(torch_step_duration_seconds_bucket{@ranks}[@rate])))",
                    legend,
                    exemplars=True,
                )
                for quantile, legend in ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))
            ],
            unit="s",
        ),
        Panel(
            "heatmap",
            "Step times",
            "Are there two kinds of steps, such as those that save, or evaluate, or got a long batch?",
            [
                Query(
                    "sum by (le) (increase(torch_step_duration_seconds_bucket{@ranks}[@rate]))",
                    "{{le}}",
                )
            ],
            unit="s",
        ),
        Panel(
            "timeseries",
            "Step time, now and yesterday",
            "Has it become slower?",
            [
                Query(
                    "sum by (job, torch_step_phase)"
                    f" (rate(torch_step_duration_seconds_sum{{@ranks}}[10m]{offset}))"
                    " / sum by (job, torch_step_phase)"
                    f" (rate(torch_step_duration_seconds_count{{@ranks}}[10m]{offset}))",
                    "{{job}} {{torch_step_phase}}" + suffix,
                )
                for offset, suffix in (("", ""), (" offset 1d", " yesterday"))
            ],
            unit="s",
        ),
        Panel(
            "timeseries",
            "Steps a second",
            "How fast does it get ahead, and how many steps does the gradient scaler skip?",
            [
                Query(
                    "avg by (job, torch_step_phase) (rate(torch_step_duration_seconds_count{@ranks}[@rate]))",
                    "{{job}} {{torch_step_phase}}",
                ),
                Query(
                    "avg by (job) (rate(torch_step_skipped_total{@ranks}[@rate]))",
                    "{{job}} skipped",
                ),
            ],
            unit="ops",
        ),
    ],
)

_COLLECTIVE_WAIT = "sum by (instance) (rate(torch_collective_wait_seconds_sum{@ranks}[@rate]))"

_WAITING = Row(
    "What steps wait for",
    [
        Panel(
            "timeseries",
            "Waiting for data, by rank",
            "Is the input too slow, on all ranks or on one? The ten that wait longest.",
            [
                Query(
                    "topk(10, sum by (instance) (rate(torch_dataloader_wait_seconds_sum{@ranks}[@rate]))"
                    " / sum by (instance) (rate(torch_step_duration_seconds_sum{@ranks}[@rate])))",
                    "{{instance}}",
                )
            ],
            unit="percentunit",
            warn=0.1,
            alarm=0.2,
        ),
        Panel(
            "timeseries",
            "Waiting for other ranks, by rank",
            "Whom do the others wait for? A rank that waits far less than the median. Step times are alike.",
            [
                Query(f"quantile(0.5, {_COLLECTIVE_WAIT})", "median of all ranks"),
                Query(f"bottomk(5, {_COLLECTIVE_WAIT})", "{{instance}}"),
            ],
            unit="percentunit",
        ),
        Panel(
            "timeseries",
            "What devices do",
            "Do devices compute, copy or communicate? The three overlap; in the share `any` something runs.",
            [
                Query(
                    "avg by (torch_device_work) (rate(torch_device_busy_time_seconds_total{@ranks}[@rate]))",
                    "{{torch_device_work}}",
                )
            ],
            unit="percentunit",
            width=8,
        ),
        Panel(
            "timeseries",
            "Garbage collection",
            "Does Python's garbage collector hold up steps? Share of the time, by generation.",
            [
                Query(
                    "avg by (torch_python_gc_generation)"
                    " (rate(torch_python_gc_pause_seconds_total{@ranks}[@rate]))",
                    "generation {{torch_python_gc_generation}}",
                )
            ],
            unit="percentunit",
            width=8,
        ),
        Panel(
            "timeseries",
            "Recompilations",
            "Does torch.compile start again and again? In 15 minutes; after the start there should be none.",
            [
                Query(
                    "topk(10, sum by (instance) (increase(torch_compile_recompilations_total{@ranks}[15m])))",
                    "{{instance}}",
                )
            ],
            width=8,
        ),
    ],
)

_TRACES = Row(
    "Traces",
    [
        Panel(
            "traces",
            "Slow captured steps",
            "What happened in a slow step? Each leads to its trace, with operators and kernels.",
            [Query('{ name = "torch.step" && resource.service.name =~ "$job" && duration > 1s }')],
            width=24,
        )
    ],
)

TRAINING = Dashboard(
    "torchprof-training",
    "PyTorch: training",
    "Does the job run, how fast, and what does it wait for?",
    [_NOW, _STEPS, _WAITING, _TRACES],
)
