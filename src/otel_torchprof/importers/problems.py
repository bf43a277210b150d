"""What the problems of an import mean, in words: what was met, whether it matters, what was done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem.

    `met` is what stands in the file, in the plural, `done` what became of it. What is harmless leaves out
    nothing that somebody would look for, and leaves the times of everything as they were.
    """

    met: str
    done: str
    is_harmless: bool = False


def explain(problems: Mapping[str, int], *, harmless: bool) -> list[str]:
    """One line each for the problems that are harmless, or for all others.

    Args:
        problems: names and how often; one that nobody here knows is not harmless, and stands alone.
    """
    lines: list[str] = []
    for name, count in problems.items():
        problem = PROBLEMS.get(name)
        if (problem is not None and problem.is_harmless) == harmless:
            said = "" if problem is None else f": {problem.met}; {problem.done}"
            lines.append(f"{name} {count:,}{said}")
    return lines


def without_harmless(problems: Mapping[str, int]) -> dict[str, int]:
    """The problems that may matter."""
    return {
        name: count
        for name, count in problems.items()
        if name not in PROBLEMS or not PROBLEMS[name].is_harmless
    }


def _harmless(met: str, done: str) -> Problem:
    return Problem(met, done, is_harmless=True)


_READ_WHAT_IS_THERE = "what was whole is there"
_LEFT_OUT = "left out"
_NOT_LINKED = "not linked; the events themselves are there"

# Of a file as a whole.
_FILES = {
    "malformed_json": Problem("the text is no sound JSON", "it was searched for complete events"),
    "array_not_closed": Problem("the list of events has no end", _READ_WHAT_IS_THERE),
    "last_event_cut_off": Problem("the file ends within an event", _READ_WHAT_IS_THERE),
    "last_message_cut_off": Problem("the file ends within a message", _READ_WHAT_IS_THERE),
    "compressed_data_cut_off": Problem("the compressed data end early", _READ_WHAT_IS_THERE),
    "malformed_message": Problem("messages that are no OTLP", "read as far as they go"),
    "no_trace_events": Problem("there are no trace events", "the recording is empty"),
    "no_spans": Problem("there are no spans", "the recording is empty"),
    "damaged_table": Problem("tables of the database are damaged", "read as far as they go"),
}
# Of the text of events.
_TEXTS = {
    "not_a_number": _harmless("NaN or infinity, which JSON does not have", "taken for null"),
    "trailing_comma": _harmless("commas with nothing after them", "dropped"),
    "bad_escape": _harmless("escapes that JSON does not have", "taken as the characters they are"),
    "unescaped_quote": _harmless("quotes within texts", "taken as the characters they are"),
    "control_character": _harmless("control characters within texts", "taken as the characters they are"),
    "invalid_utf8": _harmless("bytes that are no text", "replaced by U+FFFD"),
    "lone_surrogate": _harmless("halves of characters", "replaced by U+FFFD"),
    "label_is_no_text": _harmless("names or categories that are no text", "taken as text"),
    "name_is_no_text": _harmless("names that are no text", "taken as text"),
    "name_cut": _harmless("names longer than the limit", "cut to it"),
    "arguments_are_no_object": Problem(
        "arguments of events that are no object", "the events are without them"
    ),
    "arguments_too_long": Problem("arguments longer than 256 KiB", "the events are without them"),
    "malformed_event": Problem("events that are no sound JSON", _LEFT_OUT),
    "event_is_no_object": Problem("events that are no object", _LEFT_OUT),
    "event_nested_too_deeply": Problem("events that are nested too deeply", _LEFT_OUT),
    "event_too_large": Problem("events that are too large", _LEFT_OUT),
    "events_left_out": Problem("events that could not be mended", _LEFT_OUT),
    "malformed_entry": Problem("entries of a kind that a snapshot does not have", _LEFT_OUT),
    "entry_missing": Problem("entries that are not where they should be", "taken for empty"),
    "entries_left_out": Problem("entries that could not be read", _LEFT_OUT),
}
# Of times.
_TIMES = {
    "no_time": Problem("events without a time", _LEFT_OUT),
    "bad_time": Problem("events whose time is no number", _LEFT_OUT),
    "zero_time": Problem("events at time 0, where all others are of another day", _LEFT_OUT),
    "time_out_of_range": Problem(
        "times too far from 1970 for a number of ns", "left out or moved within range"
    ),
    "time_runs_backwards": Problem("entries earlier than the one before them", "kept in order, 1 ns apart"),
    "no_duration": Problem("events without an end", "given a duration of 0"),
    "negative_duration": Problem("events that end before they begin", "given a duration of 0"),
    "duration_overflows_stream": Problem(
        "work that lasts over a second into the next on its stream", "ended where that begins"
    ),
    "end_rounded": _harmless(
        "events that outlast what they lie in by a rounding error, as profilers write them", "cut to fit"
    ),
    "crossing_slices": _harmless(
        "events that begin within another and outlast it, as a scope outlasts the coroutine that began it",
        "kept as they are: only the self times of the two overlap",
    ),
    "clock_not_calibrated": Problem(
        "the process ended before its clock was read twice", "durations are estimates"
    ),
}
# Of events that belong together.
_PAIRS = {
    "end_out_of_order": _harmless(
        "ends that came before those of events begun later", "each ended the innermost of its name"
    ),
    "end_of_another_name": Problem("ends with no begin of their name", "each ended what nothing else did"),
    "begin_without_end": _harmless(
        "events that were still open at the end of the trace", "they last until then, flagged as unfinished"
    ),
    "end_without_begin": _harmless("ends of events begun before the trace", _LEFT_OUT),
    "flow_end_without_start": _harmless("arrows that end and never begin", _NOT_LINKED),
    "flow_start_without_end": _harmless("arrows that begin and never end", _NOT_LINKED),
    "flow_without_slice": _harmless("arrows from or to nothing", _NOT_LINKED),
    "launch_not_found": _harmless(
        "work on a device that no call in the file launched, as it began before or was not traced",
        _NOT_LINKED,
    ),
    "correlation_id_used_twice": _harmless(
        "calls with the same correlation id", "the work was linked to the last one before it"
    ),
    "link_target_missing": _harmless("links to what is not in the file", _NOT_LINKED),
}
# Of what a format does not have, or this package not.
_OTHERS = {
    "unsupported_phase": Problem("events of a phase that is not read", _LEFT_OUT),
    "no_phase": Problem("events that do not say what they are", _LEFT_OUT),
    "counter_without_value": _harmless("counters without a value", _LEFT_OUT),
    "metadata_without_arguments": _harmless("metadata that say nothing", _LEFT_OUT),
    "no_process_or_thread": Problem("events without process and thread", "on a track of their own"),
    "no_address": Problem("allocations without an address", "not paired with their frees"),
    "unknown_action": Problem("actions of a memory allocator that are not known", "kept as marks"),
}
# Of a `.tprof` file: see docs/recording-format.md.
_RECORDINGS = {
    "file_cut_off": Problem("the file ends early", _READ_WHAT_IS_THERE),
    "bad_chunk_header": Problem("a part of the file is damaged", "reading went on at the next sound one"),
    "unknown_chunk_kind": Problem("parts of a newer version", "left out: this version does not know them"),
    "wrong_record_size": Problem("parts with records of another size", _LEFT_OUT),
    "committed_too_large": Problem("parts that claim more than they can hold", "read as far as they go"),
    "bad_string": Problem("names that are damaged", _LEFT_OUT),
    "duplicate_string": Problem("names that are there twice", "the second was left out"),
    "unknown_string": Problem("events whose name is missing", "without a name"),
    "duplicate_thread": Problem("threads that are described twice", "the first description holds"),
    "unknown_thread": Problem("events of a thread that is not described", "on a track without a name"),
    "unknown_track": Problem("events of a track that is not described", "on a track without a name"),
    "unknown_event_kind": Problem("events of a kind of a newer version", "taken for `other`"),
    "payload_out_of_range": Problem("inputs of ops that are not in the file", _LEFT_OUT),
    "damaged_inputs": Problem("inputs of ops that are damaged", _LEFT_OUT),
    "step_links_out_of_range": Problem("links of steps that are not in the file", _LEFT_OUT),
    "damaged_arguments": Problem("arguments of events that are damaged", _LEFT_OUT),
    "side_row_without_event": Problem("details of events that are not in the file", _LEFT_OUT),
    "rows_out_of_order": Problem("events that are out of order", "sorted"),
    "metadata_too_long": Problem("more metadata than a recording has", "left out after 65,536 lines"),
    "unreadable_metadata": Problem("metadata that are damaged", _LEFT_OUT),
}

PROBLEMS = {**_FILES, **_TEXTS, **_TIMES, **_PAIRS, **_OTHERS, **_RECORDINGS}
