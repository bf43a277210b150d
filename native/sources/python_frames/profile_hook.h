// The profile function of a thread and what it remembers. Runs on every call and return of the thread.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/frame_log.h"
#include "sources/python_frames/python_names.h"

namespace torchprof {

// A Python object. Called as a profile function in Python, which is what a program does that took it from
// sys.getprofile() and puts it back, it watches the calling thread again.
struct ProfileHook {
  PyObject_HEAD
      // What the thread had before; called after recording.
      Py_tracefunc previous_function;
  PyObject* previous_object;
  std::uint64_t installed_ticks;
  std::uint32_t aligned_slots;  // bits of those whose log knows the thread's stack
  bool is_first_of_thread;
};

// What hooks share. Under the GIL.
struct ProfileHooks {
  std::uint32_t wanted_slots = 0;  // bits
  // Threads that were hooked by then were there when the capture of the slot began.
  std::array<std::uint64_t, kSlots> started_ticks{};
  NameEpochs epochs;
  CodeNames codes;
  CFunctionNames c_functions;
};
ProfileHooks& profile_hooks() noexcept;

// Prepares the Python type; false with a Python exception.
bool ready_profile_hook_type() noexcept;

// The hook of a thread; nullptr when its profile function is not ours. Borrowed.
ProfileHook* hook_of(PyThreadState* thread) noexcept;

// Puts a hook before the thread's profile function. False with a Python exception.
bool install_hook(PyThreadState* thread, bool is_first_of_thread);
// Puts the thread's earlier profile function back in place of the hook. False with a Python exception.
bool remove_hook(PyThreadState* thread, ProfileHook& hook);

// The frames of a thread from `innermost` out, outermost first, named for a slot that records.
std::vector<StandingFrame> standing_frames(PyFrameObject* innermost, std::uint32_t slot,
                                           ActiveRecording& recording);
// When they begin, for all that is known.
std::uint64_t standing_since(const ProfileHook& hook, std::uint32_t slot, ActiveRecording& recording);

}  // namespace torchprof
