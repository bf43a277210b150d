#include "sources/python/gil.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace torchprof {
namespace {

std::atomic<bool> interpreter_ends{false};
// Threads that are on their way to the GIL, or in Python with C++ around them: where the interpreter must not
// end them.
std::atomic<int> in_danger{0};

bool is_main_thread() noexcept { return syscall(SYS_gettid) == getpid(); }

// `ask` waits for the GIL.
template <typename Ask>
auto ask_for_gil(Ask ask) noexcept {
  in_danger.fetch_add(1);
  if (interpreter_ends.load() && !is_main_thread()) {
    in_danger.fetch_sub(1);
    while (true) pause();
  }
  return ask();
}

// The first exit handler that is registered runs as the last: it lets those who ask already have the GIL, and
// calls into Python end. Nobody begins either any more.
void hold_other_threads() {
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr auto kPause = std::chrono::milliseconds(1);
  interpreter_ends.store(true);
  PyThreadState* const state = PyEval_SaveThread();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (in_danger.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
  }
  PyEval_RestoreThread(state);
}

// The forking thread alone is there. It may be in a call into Python: at its end this is one too few, once.
void forget_other_threads() { in_danger.store(0); }

}  // namespace

WithoutGil::WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
WithoutGil::~WithoutGil() {
  ask_for_gil([this] {
    PyEval_RestoreThread(state_);
    return true;
  });
  in_danger.fetch_sub(1);
}

WithGil::WithGil() noexcept : state_(ask_for_gil(PyGILState_Ensure)) {}
WithGil::~WithGil() {
  PyGILState_Release(state_);
  in_danger.fetch_sub(1);
}

TryWithGil::TryWithGil() noexcept {
  in_danger.fetch_add(1);
  has_gil_ = !interpreter_ends.load();
  if (has_gil_) {
    state_ = PyGILState_Ensure();
  } else {
    in_danger.fetch_sub(1);
  }
}
TryWithGil::~TryWithGil() {
  if (has_gil_) {
    PyGILState_Release(state_);
    in_danger.fetch_sub(1);
  }
}

void prepare_for_interpreter_end() {
  pthread_atfork(nullptr, nullptr, forget_other_threads);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(hold_other_threads));
}

}  // namespace torchprof
