"""Waiting for batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import View
from otel_torchprof.recording import EventKind

_MIN_SHARE = 0.10  # of the time that was recorded
_MIN_WAITS = 3
_MIN_SPAWNS, _SURE_SPAWNS = 2, 4
_SCOPE = "enumerate(DataLoader)#"
_URL = "https://docs.pytorch.org/docs/stable/data.html"


@pattern(
    "data-loader-in-process",
    title="Batches are loaded in the training process",
    why="While a batch is read and collated nothing else happens: neither ops nor launches of kernels.",
    found=f"`DataLoader` iterators without workers whose `__next__` takes at least {_MIN_SHARE:.0%} of "
    "the time.",
    advice="Give the DataLoader workers, so that batches are made while the model runs.",
    example="DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True, pin_memory=True)",
    limits="The time that workers take from the model on the same cores is not known.",
    url=f"{_URL}#single-and-multi-process-data-loading",
)
def data_loader_in_process(view: View) -> Iterator[Match]:
    rows = np.flatnonzero(view.named(f"{_SCOPE}_SingleProcessDataLoaderIter.__next__"))
    share = view.duration_ns[rows].sum() / view.window_ns
    if share >= _MIN_SHARE:
        yield Match(rows, Level.HIGH, f"{share:.0%} of the time goes into loading", saving=(0.5, 1.0))


@pattern(
    "data-loader-starves",
    title="Workers do not load batches fast enough",
    why="The model stands still until the next batch is there.",
    found="`DataLoader` iterators with workers whose usual (median) wait, times the number of waits, is "
    "at least "
    f"{_MIN_SHARE:.0%} of the time. Waits for the first batch of an epoch are longer and do not count.",
    advice="Add workers, let each fetch ahead, or make the dataset cheaper: decode and augment on the "
    "device.",
    example="DataLoader(dataset, num_workers=8, prefetch_factor=4, persistent_workers=True)",
    limits="What keeps the workers busy is not recorded: they are other processes.",
    url=f"{_URL}#multi-process-data-loading",
)
def data_loader_starves(view: View) -> Iterator[Match]:
    rows = np.flatnonzero(view.named(f"{_SCOPE}_MultiProcessingDataLoaderIter.__next__"))
    if len(rows) < _MIN_WAITS:
        return
    usual_ns = float(np.median(view.duration_ns[rows]))
    share = usual_ns * len(rows) / view.window_ns
    if share >= _MIN_SHARE:
        cost_ns = np.minimum(view.duration_ns[rows], round(usual_ns))
        yield Match(rows, Level.HIGH, f"about {share:.0%} of the time is waiting", cost_ns, saving=(0.3, 1.0))


@pattern(
    "data-loader-workers-respawned",
    title="Worker processes are started again for each epoch",
    needs=(Need.STACKS,),
    why="Starting processes, importing modules and copying the dataset takes seconds, and caches of "
    "datasets "
    "are lost.",
    found=f"At least {_MIN_SPAWNS} iterators of DataLoaders made in one function that start processes; "
    "from "
    f"{_SURE_SPAWNS} on it is sure.",
    advice="Keep the workers between epochs.",
    example="DataLoader(dataset, num_workers=4, persistent_workers=True)",
    limits="Two loaders that are each used once in one function look the same, hence the lower confidence.",
    url=_URL,
)
def data_loader_workers_respawned(view: View) -> Iterator[Match]:
    is_python = view.of_kind(EventKind.PYTHON)
    makes = is_python & view.where_name(lambda name: name.split(".")[-1] == "_get_iterator")
    starts = is_python & view.where_name(lambda name: name.split(".")[-1] == "start")
    starts &= view.where_overload(lambda place: "multiprocessing/process.py:" in place)
    rows = np.flatnonzero(makes & view.holds(starts))
    places = [(place.file, place.function) for place in view.places(rows)]
    for place in sorted(set(places)):
        chosen = rows[[other == place for other in places]]
        if len(chosen) >= _MIN_SPAWNS:
            sure = Level.HIGH if len(chosen) >= _SURE_SPAWNS else Level.MEDIUM
            # The first start is needed.
            yield Match(chosen[1:], sure, f"workers were started {len(chosen)} times", saving=(0.5, 1.0))
