// Calls of `torch.nn.Module`s as events. Python reports each from around `Module.__call__`; everything here
// needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sources/modules/module_tree.h"

namespace torchprof {

// A module that was called while a capture recorded.
struct CalledModule {
  std::string root_class;
  std::string path;
  std::string class_name;
  nanobind::object module;  // None when it is gone
};

class ModuleCalls {
 public:
  // One for all captures, never destroyed.
  static ModuleCalls& instance();

  // `graph_task`: torch's function that gives the number of the backward pass on the calling thread, -1 =
  // none.
  // `outermost_only`: only calls that no other is around.
  void start(std::uint32_t slot, nanobind::object graph_task, bool outermost_only);
  // What was called since the start, each path of each root once.
  std::vector<CalledModule> stop(std::uint32_t slot);
  // In the child of a fork nothing records.
  void forget() noexcept;

  // False when nothing was begun; `end` must not be called then.
  bool begin(PyObject* module) noexcept;
  // An exception of this type, of Python, is what ends the call: before `end`.
  void fail(PyObject* module, PyObject* error_type) noexcept;
  void end(PyObject* module) noexcept;

 private:
  using Nodes = std::unordered_map<PyObject*, std::unique_ptr<ModuleNode>>;
  // Its address is the key of its event.
  struct OpenCall {
    ModuleNode* node;
    PyObject* module;  // nullptr once it ended, while calls above it have not
    std::uint32_t slots;
  };
  using OpenCalls = std::deque<OpenCall>;
  struct Thread {
    OpenCalls open;  // outermost first; the last one has not ended
    std::uint64_t outermost = 0;
  };

  static Thread& this_thread();
  // Nearly always the innermost; green threads may leave calls in any order.
  static OpenCalls::reverse_iterator find_open(OpenCalls& open, PyObject* module) noexcept;
  Nodes& siblings(const Thread& thread, PyObject* module);
  ModuleNode* find(Thread& thread, PyObject* module);
  ModuleNode* place(const Thread& thread, PyObject* module);
  static ModuleWay search(const Thread& thread, PyObject* module, const ModuleNode*& base);
  [[nodiscard]] bool is_recomputed(PyObject* module);
  void tidy();
  static std::size_t sweep(Nodes& nodes);
  void clear() noexcept;

  [[nodiscard]] bool wanted() const noexcept { return (slots_ | outermost_slots_) != 0; }

  std::uint32_t slots_ = 0;            // bit 1 << slot for each capture that wants modules
  std::uint32_t outermost_slots_ = 0;  // and for each that wants the outermost alone
  std::uint64_t outermost_calls_ = 0;
  std::size_t open_calls_ = 0;  // of all threads
  std::size_t nodes_ = 0;
  std::size_t sweep_at_nodes_ = 0;
  Nodes roots_;
  // Called outermost by the backward pass, which computes checkpointed modules again.
  Nodes recomputed_;
  // Nodes whose module moved or changed its class: freed when no call is open, as one may still be theirs.
  std::vector<std::unique_ptr<ModuleNode>> retired_;
  // Of modules called inside others: where they first stood, to be known by when they are recomputed.
  struct Home {
    WeakObject module;
    ModuleWay way;
  };
  std::unordered_map<PyObject*, Home> homes_;
  nanobind::object graph_task_;
};

}  // namespace torchprof
