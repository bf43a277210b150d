"""Gradients that the backward pass hands over to leaves, seen in the recording itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.memory.blocks import Blocks
from otel_torchprof.recording import Recording

_ACCUMULATE = "torch::autograd::AccumulateGrad"


def accumulated_gradients(recording: Recording, blocks: Blocks) -> Iterator[int]:
    """Blocks of gradients that autograd kept or added to.

    The first gradient of a leaf is kept as it is (`aten::detach`) or copied; later ones are added to it in
    place (`aten::add_`).
    """
    names = [recording.name(name_id) for name_id in range(recording.name_count)]
    is_accumulation = np.array([name == _ACCUMULATE for name in names], dtype=bool)
    keeps = np.array([name in {"aten::detach", "aten::add_"} for name in names], dtype=bool)
    events, parent = recording.events, recording.tree().parent
    if not len(recording):
        return
    # One more entry, for the parent -1 of the outermost, which is its own parent.
    accumulates = np.append(is_accumulation[events.name], False)
    parent = np.append(parent, -1)
    tensors = recording.tensors
    row = tensors["event"]
    within = accumulates[parent[row]] & keeps[events.name[row]]
    first_argument = within & (tensors["argument"] == 0) & (blocks.of_tensor >= 0)
    yield from np.unique(blocks.of_tensor[first_argument]).tolist()
    # A copy: made below an accumulation and not gone with it.
    made = np.flatnonzero(blocks.event >= 0)
    event = blocks.event[made]
    holder = np.where(accumulates[event], event, parent[event])
    holder = np.where(accumulates[holder], holder, parent[holder])
    outlives = blocks.end_ns[made] > events.end_ns[holder]
    yield from made[accumulates[holder] & outlives].tolist()
