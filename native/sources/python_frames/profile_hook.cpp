#include "sources/python_frames/profile_hook.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/frame_hooks.h"

// PyEval_SetProfile for any thread. CPython exports it for cProfile; its headers declare it up to 3.11.
#if PY_VERSION_HEX >= 0x030C0000
extern "C" int _PyEval_SetProfile(PyThreadState* thread, Py_tracefunc function, PyObject* object);
#endif

namespace torchprof {
namespace {

#define TORCHPROF_COLD __attribute__((noinline, cold))

ProfileHooks hooks;
PyTypeObject* hook_type = nullptr;

int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument);

TORCHPROF_COLD std::uint32_t intern(FrameName& name, std::uint32_t slot, ActiveRecording& recording,
                                    const Name& text) noexcept {
  StringTable& table = recording.strings();
  const StringEntry& entry = table.intern(text, text.hash());
  if (&entry == &table.placeholder()) {
    recording.count_drops(DropReason::kNameTableFull);
  }
  hooks.epochs.set_id(name, slot, entry.id);
  return entry.id;
}

TORCHPROF_COLD std::uint32_t intern_code(FrameName& name, std::uint32_t slot, ActiveRecording& recording,
                                         PyCodeObject* code, PyFrameObject* frame) noexcept {
  try {
    const std::string text = qualified_name(code, frame);
    const std::string place = location(code);
    return intern(name, slot, recording, {.name = text, .overload = place});
  } catch (const std::bad_alloc&) {
    return recording.strings().placeholder().id;
  }
}

TORCHPROF_COLD std::uint32_t intern_c_function(FrameName& name, std::uint32_t slot,
                                               ActiveRecording& recording,
                                               PyCFunctionObject* function) noexcept {
  try {
    const std::string text = qualified_name(function);
    return intern(name, slot, recording, {.name = text, .overload = {}});
  } catch (const std::bad_alloc&) {
    return recording.strings().placeholder().id;
  }
}

bool is_hidden(const FrameName* name, bool caller_is_hidden) noexcept {
  return name == nullptr || name->visibility == Visibility::kNever ||
         (name->visibility == Visibility::kUnlessCalledByHidden && caller_is_hidden);
}

void enter_python(FrameLog& log, std::uint32_t slot, ActiveRecording& recording,
                  PyFrameObject* frame) noexcept {
  PyCodeObject* code = PyFrame_GetCode(frame);
  FrameName* name = hooks.codes.find(code);
  if (is_hidden(name, log.innermost_is_hidden())) [[unlikely]] {
    log.enter_hidden(frame);
  } else {
    const std::uint32_t id =
        hooks.epochs.knows(*name, slot) ? name->ids[slot] : intern_code(*name, slot, recording, code, frame);
    log.enter(frame, id, EventKind::kPython);
  }
  Py_DECREF(code);
}

void enter_c(FrameLog& log, std::uint32_t slot, ActiveRecording& recording, PyFrameObject* frame,
             PyObject* callable) noexcept {
  if (log.innermost_is_hidden() || !PyCFunction_Check(callable)) [[unlikely]] {
    log.enter_hidden(c_call_key(frame));
    return;
  }
  auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  FrameName* name = hooks.c_functions.find(function);
  if (name == nullptr) [[unlikely]] {
    log.enter_hidden(c_call_key(frame));
    return;
  }
  const std::uint32_t id =
      hooks.epochs.knows(*name, slot) ? name->ids[slot] : intern_c_function(*name, slot, recording, function);
  log.enter(c_call_key(frame), id, EventKind::kPythonC);
}

// The first event of a thread in a recording, or since it is watched again.
TORCHPROF_COLD void align(ProfileHook& hook, FrameLog& log, std::uint32_t slot, ActiveRecording& recording,
                          PyFrameObject* frame, int what) noexcept {
  hook.aligned_slots |= 1U << slot;
  // A frame that is being called is not on the stack yet, for the log.
  PyFrameObject* innermost = what == PyTrace_CALL ? PyFrame_GetBack(frame) : frame;
  try {
    log.align(standing_frames(innermost, slot, recording), standing_since(hook, slot, recording));
  } catch (const std::bad_alloc&) {
    recording.count_drops(DropReason::kNoThreadState);
  }
  if (what == PyTrace_CALL) {
    Py_XDECREF(innermost);
  }
}

bool is_any_recording(std::uint32_t wanted_slots) noexcept {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((wanted_slots & (1U << slot)) != 0 &&
        slots[slot].recording.load(std::memory_order_relaxed) != nullptr) {
      return true;
    }
  }
  return false;
}

// False when no capture records any more.
bool record(ProfileHook& hook, PyFrameObject* frame, int what, PyObject* argument) noexcept {
  std::uint32_t slots_left = hooks.wanted_slots;
  if (slots_left == 0) [[unlikely]] {
    return false;
  }
  ThreadState* thread = thread_of_frames(static_cast<std::uint32_t>(std::countr_zero(slots_left)));
  if (thread == nullptr) [[unlikely]] {
    return is_any_recording(slots_left);
  }
  const HookScope scope(*thread);
  if (!scope.entered()) [[unlikely]] {
    return true;
  }
  const std::uint64_t now_ticks = what == PyTrace_CALL || what == PyTrace_C_CALL ? 0 : ticks();
  bool is_recorded = false;
  for (; slots_left != 0; slots_left &= slots_left - 1) {
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(slots_left));
    FrameLog* log = frame_log_of(*thread, slot);
    if (log == nullptr) [[unlikely]] {
      is_recorded = is_recorded || slots[slot].recording.load(std::memory_order_relaxed) != nullptr;
      continue;
    }
    is_recorded = true;
    ActiveRecording& recording = log->recording();
    if ((hook.aligned_slots & (1U << slot)) == 0) [[unlikely]] {
      align(hook, *log, slot, recording, frame, what);
    }
    switch (what) {
      case PyTrace_CALL:
        enter_python(*log, slot, recording, frame);
        break;
      case PyTrace_RETURN:
        log->leave(frame, now_ticks);
        break;
      case PyTrace_C_CALL:
        enter_c(*log, slot, recording, frame, argument);
        break;
      case PyTrace_C_RETURN:
      case PyTrace_C_EXCEPTION:
        log->leave(c_call_key(frame), now_ticks);
        break;
      default:
        break;
    }
  }
  return is_recorded;
}

// Calls the profile function that the thread had before. It may take itself away, or put another in its
// place: both then happen behind our hook.
TORCHPROF_COLD int forward(ProfileHook& hook, PyFrameObject* frame, int what, PyObject* argument) noexcept {
  Py_tracefunc function = hook.previous_function;
  PyObject* object = hook.previous_object;
  Py_INCREF(&hook);
  Py_XINCREF(object);
  const int result = function(object, frame, what, argument);
  Py_XDECREF(object);
  PyThreadState* thread = PyThreadState_Get();
  if (hook_of(thread) != &hook) {
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    hook.previous_function = thread->c_profilefunc;
    object = std::exchange(hook.previous_object, Py_XNewRef(thread->c_profileobj));
    Py_XDECREF(object);
    if (_PyEval_SetProfile(thread, on_event, reinterpret_cast<PyObject*>(&hook)) != 0) {
      PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
  }
  Py_DECREF(&hook);
  return result;
}

// Nobody wants the calls of this thread any more, and nobody took the hook away: the process forked.
TORCHPROF_COLD void leave_thread(ProfileHook& hook) noexcept {
  hooks.wanted_slots = 0;
  if (!remove_hook(PyThreadState_Get(), hook)) {
    PyErr_Clear();
  }
}

int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument) {
  auto& hook = *reinterpret_cast<ProfileHook*>(self);
  const bool is_recorded = record(hook, frame, what, argument);
  if (is_recorded && hook.previous_function == nullptr) [[likely]] {
    return 0;
  }
  Py_INCREF(self);
  int result = 0;
  if (!is_recorded) {
    leave_thread(hook);
    if (hook.previous_function != nullptr) {
      result = hook.previous_function(hook.previous_object, frame, what, argument);
    }
  } else {
    result = forward(hook, frame, what, argument);
  }
  Py_DECREF(self);
  return result;
}

ProfileHook* new_hook(Py_tracefunc previous_function, PyObject* previous_object, bool is_first_of_thread) {
  auto* hook = PyObject_New(ProfileHook, hook_type);
  if (hook == nullptr) {
    return nullptr;
  }
  hook->previous_function = previous_function;
  hook->previous_object = Py_XNewRef(previous_object);
  hook->installed_ticks = ticks();
  hook->aligned_slots = 0;
  hook->is_first_of_thread = is_first_of_thread;
  return hook;
}

bool set_hook(PyThreadState* thread, ProfileHook* hook) {
  if (hook == nullptr) {
    return false;
  }
  const int failed = _PyEval_SetProfile(thread, on_event, reinterpret_cast<PyObject*>(hook));
  Py_DECREF(hook);
  return failed == 0;
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<ProfileHook*>(self)->previous_object);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* put_back(PyObject* self, PyObject*, PyObject*) {
  auto& hook = *reinterpret_cast<ProfileHook*>(self);
  PyThreadState* thread = PyThreadState_Get();
  const bool is_done = hooks.wanted_slots != 0
                           ? set_hook(thread, new_hook(hook.previous_function, hook.previous_object, false))
                           : remove_hook(thread, hook);
  if (!is_done) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace

ProfileHooks& profile_hooks() noexcept { return hooks; }

bool ready_profile_hook_type() noexcept {
  if (hook_type != nullptr) {
    return true;
  }
  static PyType_Slot type_slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_call, reinterpret_cast<void*>(put_back)},
      {0, nullptr},
  };
  static PyType_Spec spec = {.name = "otel_torchprof._native.core.ProfileHook",
                             .basicsize = sizeof(ProfileHook),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = type_slots};
  hook_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return hook_type != nullptr;
}

ProfileHook* hook_of(PyThreadState* thread) noexcept {
  return thread->c_profilefunc == on_event ? reinterpret_cast<ProfileHook*>(thread->c_profileobj) : nullptr;
}

bool install_hook(PyThreadState* thread, bool is_first_of_thread) {
  return set_hook(thread, new_hook(thread->c_profilefunc, thread->c_profileobj, is_first_of_thread));
}

bool remove_hook(PyThreadState* thread, ProfileHook& hook) {
  return _PyEval_SetProfile(thread, hook.previous_function, hook.previous_object) == 0;
}

std::vector<StandingFrame> standing_frames(PyFrameObject* innermost, std::uint32_t slot,
                                           ActiveRecording& recording) {
  struct Reference {
    PyFrameObject* frame;
    ~Reference() { Py_XDECREF(frame); }
  };
  std::vector<std::pair<const void*, FrameName*>> frames;
  std::vector<StandingFrame> standing;
  Py_XINCREF(innermost);
  for (Reference at{innermost}; at.frame != nullptr;) {
    PyCodeObject* code = PyFrame_GetCode(at.frame);
    FrameName* name = hooks.codes.find(code);
    std::uint32_t id = 0;
    if (name != nullptr) {
      id = hooks.epochs.knows(*name, slot) ? name->ids[slot]
                                           : intern_code(*name, slot, recording, code, at.frame);
    }
    Py_DECREF(code);
    frames.emplace_back(at.frame, name);
    standing.push_back({.key = at.frame, .name = id, .is_hidden = false});
    PyFrameObject* back = PyFrame_GetBack(at.frame);
    Py_DECREF(std::exchange(at.frame, back));
  }
  std::reverse(standing.begin(), standing.end());
  bool caller_is_hidden = false;
  for (std::size_t i = 0; i < standing.size(); ++i) {
    caller_is_hidden = is_hidden(frames[standing.size() - 1 - i].second, caller_is_hidden);
    standing[i].is_hidden = caller_is_hidden;
  }
  return standing;
}

std::uint64_t standing_since(const ProfileHook& hook, std::uint32_t slot, ActiveRecording& recording) {
  if (!hook.is_first_of_thread || hook.installed_ticks > hooks.started_ticks[slot]) {
    return hook.installed_ticks;
  }
  return recording.arena().header().clock_start.ticks;
}

}  // namespace torchprof
