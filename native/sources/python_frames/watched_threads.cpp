#include "sources/python_frames/watched_threads.h"

#include <algorithm>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/frame_hooks.h"
#include "sources/python_frames/profile_hook.h"

namespace torchprof {
namespace {

struct WatchedThread {
  std::uint32_t os_thread_id;
  bool is_lost;  // its profile function is another's
};

// By PyThreadState_GetID.
std::unordered_map<std::uint64_t, WatchedThread> watched;

std::uint32_t os_thread_id(const PyThreadState& thread) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<std::uint32_t>(thread.native_thread_id);
#else
  static_cast<void>(thread);
  return 0;  // no thread's: 3.10 does not keep it
#endif
}

PyThreadState* thread_with(std::uint64_t id) noexcept {
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
  while (thread != nullptr && PyThreadState_GetID(thread) != id) {
    thread = PyThreadState_Next(thread);
  }
  return thread;
}

// What is done to a thread may run Python, and threads come and go meanwhile: the list is not walked then.
template <typename Visit>
void for_each_thread(Visit visit) {
  std::vector<std::uint64_t> ids;
  for (PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Main()); thread != nullptr;
       thread = PyThreadState_Next(thread)) {
    ids.push_back(PyThreadState_GetID(thread));
  }
  for (const std::uint64_t id : ids) {
    if (PyThreadState* thread = thread_with(id); thread != nullptr) {
      visit(thread);
    }
  }
}

// Its frames are left open: those that are still there when it is watched again go on.
void count_as_lost(WatchedThread& thread) noexcept {
  if (std::exchange(thread.is_lost, true)) {
    return;
  }
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ActiveRecording* recording = slots[slot].recording.load(std::memory_order_relaxed);
    if ((profile_hooks().wanted_slots & (1U << slot)) != 0 && recording != nullptr) {
      recording->count_drops(DropReason::kProfilerReplaced);
    }
  }
}

void watch(PyThreadState* thread) {
  const std::uint64_t id = PyThreadState_GetID(thread);
  const auto known = watched.find(id);
  if (hook_of(thread) != nullptr) {
    if (known != watched.end()) {
      known->second.is_lost = false;  // put back by the program
    }
    return;
  }
  if (known != watched.end()) {
    count_as_lost(known->second);
    if (thread->c_profilefunc != nullptr) {
      return;
    }
    known->second.is_lost = false;
  } else {
    watched.emplace(id, WatchedThread{.os_thread_id = os_thread_id(*thread), .is_lost = false});
  }
  if (!install_hook(thread, known == watched.end())) {
    PyErr_Clear();  // an audit hook forbids it, or there is no memory
  }
}

// What a thread was in all the time: it has not called or returned since it was hooked.
void record_standing(std::uint32_t slot, ActiveRecording& recording, PyThreadState* thread,
                     const ProfileHook& hook) noexcept {
  PyFrameObject* innermost = PyThreadState_GetFrame(thread);
  try {
    const std::vector<StandingFrame> frames = standing_frames(innermost, slot, recording);
    if (const std::uint32_t id = os_thread_id(*thread); id != 0 && !frames.empty()) {
      record_standing_frames(slot, recording, id, frames, standing_since(hook, slot, recording));
    }
  } catch (const std::bad_alloc&) {
    recording.count_drops(DropReason::kNoThreadState);
  }
  Py_XDECREF(innermost);
}

void finish_thread(std::uint32_t slot, ActiveRecording& recording, PyThreadState* thread) noexcept {
  const auto known = watched.find(PyThreadState_GetID(thread));
  ProfileHook* hook = hook_of(thread);
  if (hook == nullptr) {
    if (known != watched.end()) {
      count_as_lost(known->second);
      lose_frames(slot, known->second.os_thread_id);
    }
    return;
  }
  if ((hook->aligned_slots & (1U << slot)) != 0) {
    return;
  }
  if (hook->is_first_of_thread) {
    record_standing(slot, recording, thread, *hook);
  } else if (known != watched.end()) {
    lose_frames(slot, known->second.os_thread_id);
  }
}

void unwatch_all() {
  watched.clear();
  for_each_thread([](PyThreadState* thread) {
    if (ProfileHook* hook = hook_of(thread); hook != nullptr && !remove_hook(thread, *hook)) {
      PyErr_Clear();
    }
  });
  profile_hooks().c_functions.clear();
}

}  // namespace

bool start_python_frames(std::uint32_t slot, CodeLocations locations, const ThreadIdents& own_threads) {
#if defined(Py_GIL_DISABLED)
  PyErr_SetString(PyExc_RuntimeError, "Python calls need a Python with a GIL; record without them");
  return false;
#endif
  ProfileHooks& hooks = profile_hooks();
  if (!ready_profile_hook_type() || !hooks.codes.begin()) {
    return false;
  }
  if (hooks.wanted_slots == 0) {
    watched.clear();  // of the parent, where the process forked meanwhile
  }
  hooks.codes.set_locations(std::move(locations));
  hooks.epochs.begin_recording(slot);
  for_each_thread([slot](PyThreadState* thread) {
    if (ProfileHook* hook = hook_of(thread); hook != nullptr) {
      hook->aligned_slots &= ~(1U << slot);
    }
  });
  hooks.wanted_slots |= 1U << slot;
  watch_python_threads(own_threads);
  hooks.started_ticks[slot] = ticks();
  return true;
}

void watch_python_threads(const ThreadIdents& own_threads) {
  if (profile_hooks().wanted_slots == 0) {
    return;
  }
  for_each_thread([&own_threads](PyThreadState* thread) {
    if (std::find(own_threads.begin(), own_threads.end(), thread->thread_id) == own_threads.end()) {
      watch(thread);
    }
  });
  std::erase_if(watched, [&](const auto& entry) { return thread_with(entry.first) == nullptr; });
}

void watch_current_python_thread() {
  if (profile_hooks().wanted_slots != 0) {
    watch(PyThreadState_Get());
  }
}

void stop_python_frames(std::uint32_t slot) {
  ProfileHooks& hooks = profile_hooks();
  if ((hooks.wanted_slots & (1U << slot)) == 0) {
    return;
  }
  if (ActiveRecording* recording = slots[slot].recording.load(std::memory_order_acquire);
      recording != nullptr) {
    for_each_thread([&](PyThreadState* thread) { finish_thread(slot, *recording, thread); });
  }
  hooks.wanted_slots &= ~(1U << slot);
  if (hooks.wanted_slots == 0) {
    unwatch_all();
  }
}

}  // namespace torchprof
