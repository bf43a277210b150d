"""How much device memory is used, whether it grows, and what happened when there was none."""

from __future__ import annotations

from dashboard_source.panels import Dashboard, Panel, Query, Row

_STATE = "torch_device_memory_usage_bytes{@ranks, torch_memory_state="
_LIMIT = Query("min by (job) (torch_device_memory_limit_bytes{@ranks})", "{{job}} limit")

_USAGE = Row(
    "Usage",
    [
        Panel(
            "timeseries",
            "Allocated and reserved",
            "How much memory do tensors take, and how much does torch hold for them?",
            [
                Query(
                    "max by (job, torch_memory_state) (torch_device_memory_usage_bytes{@ranks})",
                    "{{job}} {{torch_memory_state}}, highest rank",
                ),
                Query(
                    "min by (job, torch_memory_state) (torch_device_memory_usage_bytes{@ranks})",
                    "{{job}} {{torch_memory_state}}, lowest rank",
                ),
            ],
            unit="bytes",
        ),
        Panel(
            "timeseries",
            "Highest peak of any rank",
            "How near to the limit does the worst device come?",
            [
                Query(f'max by (job) ({_STATE}"peak"}})', "{{job}} peak"),
                _LIMIT,
            ],
            unit="bytes",
        ),
        Panel(
            "timeseries",
            "Reserved but not allocated",
            "Is memory held that no tensor uses? Much of it beside failing requests is fragmentation.",
            [
                Query(
                    f'topk(10, max by (instance, cuda_device_index) ({_STATE}"reserved"}})'
                    f' - max by (instance, cuda_device_index) ({_STATE}"allocated"}}))',
                    "{{instance}} device {{cuda_device_index}}",
                )
            ],
            unit="bytes",
        ),
        Panel(
            "timeseries",
            "Difference between ranks",
            "Is work spread evenly? The most that a rank has allocated over the least.",
            [
                Query(
                    f'max by (job) ({_STATE}"allocated"}}) - min by (job) ({_STATE}"allocated"}})',
                    "{{job}}",
                )
            ],
            unit="bytes",
        ),
    ],
)

_GROWTH = Row(
    "Growth",
    [
        Panel(
            "timeseries",
            "Growth in an hour",
            "Does allocated memory rise step by step, as with a list that keeps tensors?",
            [
                Query(
                    f'topk(10, max by (instance) (deriv({_STATE}"allocated"}}[1h]))) * 3600',
                    "{{instance}}",
                )
            ],
            unit="bytes",
        ),
        Panel(
            "timeseries",
            "In two hours",
            "If it goes on like in the last hour, when is memory full?",
            [
                Query(
                    f'topk(10, max by (instance) (predict_linear({_STATE}"allocated"}}[1h], 2 * 3600)))',
                    "{{instance}}",
                ),
                _LIMIT,
            ],
            unit="bytes",
        ),
    ],
)

_FAILURES = Row(
    "When there was none",
    [
        Panel(
            "timeseries",
            "Failed requests",
            "Does the program run out of memory, once or again and again?",
            [
                Query(
                    "topk(10, sum by (instance, cuda_device_index)"
                    " (increase(torch_memory_oom_total{@ranks}[15m])))",
                    "{{instance}} device {{cuda_device_index}}",
                )
            ],
            warn=1,
            alarm=3,
        ),
        Panel(
            "traces",
            "Captured steps in which memory ran out",
            "Which operator asked for how much? Spans with PROFILE_MEMORY carry what they allocated.",
            [
                Query('{ resource.service.name =~ "$job" && span.torch.memory.failed_bytes > 0 }'),
            ],
        ),
        Panel(
            "traces",
            "Captured steps with a high peak",
            "What does a step with the highest use of memory look like?",
            [
                Query(
                    '{ name = "torch.step" && resource.service.name =~ "$job"'
                    " && span.torch.device.memory.peak_bytes > 1000000000 }"
                )
            ],
            width=24,
        ),
    ],
)

MEMORY = Dashboard(
    "torchprof-memory",
    "PyTorch: memory",
    "How much device memory is used, does it grow, and what happened when there was none?",
    [_USAGE, _GROWTH, _FAILURES],
)
