"""Whether the recorder's own numbers can be trusted, and what they cost."""

from __future__ import annotations

from dashboard_source.panels import Dashboard, Panel, Query, Row

_COST = Row(
    "Cost and trust",
    [
        Panel(
            "stat",
            "Mode",
            "Is it on? The number of ranks in each mode.",
            [Query("sum by (torchprof_state) (torchprof_state{@ranks}) > 0", "{{torchprof_state}}")],
            width=6,
        ),
        Panel(
            "stat",
            "Highest overhead",
            "What does measuring cost the dearest rank? Over MAX_OVERHEAD (2 %) it switches itself off.",
            [Query("max by (job) (torchprof_overhead_ratio{@ranks})", "{{job}}")],
            unit="percentunit",
            width=6,
            warn=0.01,
            alarm=0.02,
        ),
        Panel(
            "stat",
            "Lost events",
            "Can the numbers be trusted? Lost share of all events in the time shown.",
            [
                Query(
                    "sum by (job) (increase(torchprof_events_dropped_total{@ranks}[$__range]))"
                    " / (sum by (job) (increase(torchprof_events_dropped_total{@ranks}[$__range]))"
                    " + sum by (job) (increase(torchprof_events_recorded_total{@ranks}[$__range])))",
                    "{{job}}",
                )
            ],
            unit="percentunit",
            width=6,
            warn=0.0001,
            alarm=0.001,
        ),
        Panel(
            "stat",
            "Ranks that cannot be scraped",
            "Does Prometheus reach them all? Only of those it scrapes itself.",
            [Query("sum by (job) (up{@ranks} == bool 0)", "{{job}}")],
            width=6,
            warn=1,
            alarm=2,
        ),
        Panel(
            "timeseries",
            "Overhead by rank",
            "What does it cost, and does that grow? The ten highest.",
            [Query("topk(10, torchprof_overhead_ratio{@ranks})", "{{instance}}")],
            unit="percentunit",
            warn=0.01,
            alarm=0.02,
        ),
        Panel(
            "timeseries",
            "Recorded events a second",
            "Does the recorder work, and how much is there to record? Of one rank.",
            [
                Query(
                    "sum by (job) (rate(torchprof_events_recorded_total{@ranks}[@rate]))"
                    " / count by (job) (torch_step_number{@ranks})",
                    "{{job}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            "timeseries",
            "Lost events a second, by reason",
            "Why are events lost?",
            [
                Query(
                    "sum by (torchprof_reason) (rate(torchprof_events_dropped_total{@ranks}[@rate]))",
                    "{{torchprof_reason}}",
                )
            ],
            unit="cps",
            width=8,
        ),
        Panel(
            "timeseries",
            "Series of a rank",
            "Do metrics stay within their bound of 1,500 a rank? The ten with most.",
            [Query("topk(10, scrape_samples_scraped{@ranks})", "{{instance}}")],
            width=8,
        ),
        Panel(
            "timeseries",
            "Duration of a scrape",
            "Does a rank take long to answer, as one whose machine is overloaded? The ten slowest.",
            [Query("topk(10, scrape_duration_seconds{@ranks})", "{{instance}}")],
            unit="s",
            width=8,
        ),
    ],
)

_DELIVERY = Row(
    "Delivery of traces",
    [
        Panel(
            "timeseries",
            "Delivered spans a second",
            "Do traces arrive?",
            [Query("sum by (job) (rate(torchprof_export_spans_total{@ranks}[15m]))", "{{job}}")],
            unit="cps",
        ),
        Panel(
            "timeseries",
            "Delivered bytes a second",
            "How much is sent, before compression?",
            [Query("sum by (job) (rate(torchprof_export_size_bytes_total{@ranks}[15m]))", "{{job}}")],
            unit="Bps",
        ),
        Panel(
            "timeseries",
            "Spans that did not arrive, by reason",
            "Why do traces not arrive?",
            [
                Query(
                    "sum by (torchprof_reason) (increase(torchprof_export_failed_spans_total{@ranks}[15m]))",
                    "{{torchprof_reason}}",
                )
            ],
        ),
        Panel(
            "timeseries",
            "Recordings",
            "Do recordings leave as traces, and why do some not?",
            [
                Query(
                    "sum by (job) (increase(torchprof_export_recordings_total{@ranks}[15m]))", "{{job}} sent"
                ),
                Query(
                    "sum by (torchprof_reason)"
                    " (increase(torchprof_export_dropped_recordings_total{@ranks}[15m]))",
                    "dropped: {{torchprof_reason}}",
                ),
            ],
        ),
    ],
)

RECORDER = Dashboard(
    "torchprof-recorder",
    "PyTorch: the recorder",
    "Can the numbers be trusted, do traces arrive, and what does measuring cost?",
    [_COST, _DELIVERY],
)
