// Python calls by CPython's profile hook: which captures want them, which threads carry the hook.
//
// A thread carries a hook object of its own, which remembers the profile function that the thread had before,
// calls it after recording, and gives it back when the last capture ends. All of this runs under the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <vector>

#include "sources/python_frames/python_names.h"

namespace torchprof {

// As `threading.get_ident()` has them.
using ThreadIdents = std::vector<unsigned long>;

// Records Python calls into the capture of a slot, which must have started. False with a Python exception.
// Own threads are not watched.
bool start_python_frames(std::uint32_t slot, CodeLocations locations, const ThreadIdents& own_threads);

// Watches the threads that Python knows and that are not watched yet. A thread that has been given another
// profile function since is left alone until it has none, and counted as DropReason::kProfilerReplaced.
void watch_python_threads(const ThreadIdents& own_threads);

// Watches the calling thread; nothing when nobody wants its calls.
void watch_current_python_thread();

// Before the capture stops. Idempotent.
void stop_python_frames(std::uint32_t slot);

}  // namespace torchprof
