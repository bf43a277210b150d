#include "sources/modules/module_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/op_hooks.h"
#include "core/thread_state.h"
#include "sources/python/error_type.h"

namespace torchprof {
namespace {

namespace nb = nanobind;

constexpr std::size_t kFirstSweepNodes = 4096;

// Scripted modules have one class for all and remember what they were made from. May run Python code.
std::string class_name_of(PyObject* module) {
  std::string name = Py_TYPE(module)->tp_name;
  if (name != "RecursiveScriptModule" && name != "TopLevelTracedModule" && name != "TracedModule")
    return name;
  const nb::object original = nb::steal(PyObject_GetAttrString(module, "original_name"));
  const char* const text =
      original.is_valid() && PyUnicode_Check(original.ptr()) ? PyUnicode_AsUTF8(original.ptr()) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? std::string(text) : name;
}

// May run Python code for a scripted module, which keeps its mode elsewhere.
std::uint16_t mode_of(PyObject* module) noexcept {
  static PyObject* const key = PyUnicode_InternFromString("training");
  PyObject* attributes = PyObject_GenericGetDict(module, nullptr);
  if (attributes == nullptr) {
    PyErr_Clear();
    return 0;
  }
  nb::object training = nb::borrow(PyDict_GetItem(attributes, key));
  Py_DECREF(attributes);
  if (!training.is_valid()) training = nb::steal(PyObject_GetAttr(module, key));
  if (!training.is_valid()) PyErr_Clear();
  return training.is(Py_True) ? kFlagTraining : training.is(Py_False) ? kFlagEvaluation : 0;
}

template <typename Visit>
void visit_all(std::unordered_map<PyObject*, std::unique_ptr<ModuleNode>>& nodes, const Visit& visit) {
  for (auto& [module, node] : nodes) {
    visit(*node);
    visit_all(node->children, visit);
  }
}

}  // namespace

ModuleCalls& ModuleCalls::instance() {
  static auto* const calls = new ModuleCalls;
  return *calls;
}

ModuleCalls::Thread& ModuleCalls::this_thread() {
  static thread_local Thread thread;
  return thread;
}

void ModuleCalls::start(std::uint32_t slot, nb::object graph_task, bool outermost_only) {
  const std::uint32_t bit = 1U << slot;
  const auto forget = [bit](ModuleNode& node) { node.captures &= ~bit; };
  visit_all(roots_, forget);
  visit_all(recomputed_, forget);
  graph_task_ = std::move(graph_task);
  (outermost_only ? outermost_slots_ : slots_) |= bit;
}

std::vector<CalledModule> ModuleCalls::stop(std::uint32_t slot) {
  const std::uint32_t bit = 1U << slot;
  slots_ &= ~bit;
  outermost_slots_ &= ~bit;
  std::vector<CalledModule> called;
  const auto add = [&called, bit](const ModuleNode& node) {
    if ((node.captures & bit) == 0) return;
    PyObject* const module = node.weak.get();
    called.push_back({node.root->class_name, node.path, node.class_name,
                      module != nullptr ? nb::borrow(module) : nb::none()});
  };
  visit_all(roots_, add);
  visit_all(recomputed_, add);
  if (!wanted() && open_calls_ == 0) clear();
  return called;
}

void ModuleCalls::forget() noexcept { slots_ = outermost_slots_ = 0; }

bool ModuleCalls::begin(PyObject* module) noexcept {
  if (!wanted()) return false;
  try {
    Thread& thread = this_thread();
    const std::uint32_t slots = thread.open.empty() ? slots_ | outermost_slots_ : slots_;
    if (slots == 0) return false;
    if (thread.open.empty()) {
      if (open_calls_ == 0) tidy();
      thread.outermost = ++outermost_calls_;
    }
    ModuleNode* const node = find(thread, module);
    if (node == nullptr) return false;
    OpenCall& call = thread.open.emplace_back(OpenCall{node, module, slots});
    ++open_calls_;
    node->captures |= slots;
    const EventStart event{.key = &call,
                           .name = node->class_name.c_str(),
                           .overload = node->path.c_str(),
                           .kind = EventKind::kModule,
                           .flags = mode_of(module)};
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if ((slots & (1U << slot)) != 0) begin_event(slot, event);
    }
    return true;
  } catch (...) {
    return false;  // no memory
  }
}

ModuleCalls::OpenCalls::reverse_iterator ModuleCalls::find_open(OpenCalls& open, PyObject* module) noexcept {
  return std::find_if(open.rbegin(), open.rend(),
                      [module](const OpenCall& call) { return call.module == module; });
}

void ModuleCalls::fail(PyObject* module, PyObject* error_type) noexcept {
  const std::string error = torchprof::error_type(error_type);
  OpenCalls& open = this_thread().open;
  const auto call = find_open(open, module);
  if (error.empty() || call == open.rend()) return;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((call->slots & (1U << slot)) != 0) fail_event(slot, &*call, error.c_str());
  }
}

void ModuleCalls::end(PyObject* module) noexcept {
  OpenCalls& open = this_thread().open;
  const auto call = find_open(open, module);
  if (call == open.rend()) return;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((call->slots & (1U << slot)) != 0) end_event(slot, &*call);
  }
  call->module = nullptr;
  while (!open.empty() && open.back().module == nullptr) {
    open.pop_back();
    --open_calls_;
  }
  if (!wanted() && open_calls_ == 0) clear();
}

ModuleNode* ModuleCalls::find(Thread& thread, PyObject* module) {
  Nodes& known = siblings(thread, module);
  const auto found = known.find(module);
  if (found != known.end()) {
    ModuleNode& node = *found->second;
    if (node.is(module) && node.type == Py_TYPE(module)) {
      if (node.way.has_base()) {
        if (node.way.leads_to(module)) return &node;
      } else if (thread.open.empty() || node.searched_in == thread.outermost) {
        return &node;
      } else if (const ModuleNode* base = nullptr; !search(thread, module, base).has_base()) {
        // Looked for once in each outermost call, as it may have found a place since.
        node.searched_in = thread.outermost;
        return &node;
      }
    }
  }
  return place(thread, module);
}

ModuleCalls::Nodes& ModuleCalls::siblings(const Thread& thread, PyObject* module) {
  if (!thread.open.empty()) return thread.open.back().node->children;
  return is_recomputed(module) ? recomputed_ : roots_;
}

ModuleNode* ModuleCalls::place(const Thread& thread, PyObject* module) {
  // These may run Python code, and with it other calls: before anything of the tree is looked at.
  auto node = std::make_unique<ModuleNode>();
  node->weak = WeakObject(module);
  node->class_name = class_name_of(module);
  if (node->weak.get() != module) return nullptr;
  node->module = module;
  node->type = Py_TYPE(module);
  node->searched_in = thread.outermost;
  const ModuleNode* base = nullptr;
  if (!thread.open.empty()) {
    node->way = search(thread, module, base);
  } else if (is_recomputed(module)) {
    node->way = node->home = homes_.at(module).way;
    node->path = node->home.path_from("");
  }
  if (base != nullptr) {
    node->path = node->way.path_from(base->path);
    node->root = base->root;
    node->home = base->home.has_base() ? base->home.followed_by(node->way) : node->way;
    homes_.insert_or_assign(module, Home{node->weak, node->home});
  }
  std::unique_ptr<ModuleNode>& place = siblings(thread, module)[module];
  if (place != nullptr) retired_.push_back(std::move(place));
  place = std::move(node);
  ++nodes_;
  return place.get();
}

ModuleWay ModuleCalls::search(const Thread& thread, PyObject* module, const ModuleNode*& base) {
  for (auto call = thread.open.rbegin(); call != thread.open.rend(); ++call) {
    if (call->module == nullptr) continue;
    ModuleWay way = ModuleWay::find(call->node->weak, module);
    if (way.has_base()) {
      base = call->node;
      return way;
    }
  }
  return {};
}

// Whether the backward pass calls a module that was called inside another before.
bool ModuleCalls::is_recomputed(PyObject* module) {
  const auto home = homes_.find(module);
  if (home == homes_.end()) return false;
  if (home->second.module.get() != module || !home->second.way.leads_to(module)) {
    homes_.erase(home);
    return false;
  }
  const nb::object number = nb::steal(PyObject_CallNoArgs(graph_task_.ptr()));
  const long task = number.is_valid() ? PyLong_AsLong(number.ptr()) : -1;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return task >= 0;
}

void ModuleCalls::tidy() {
  retired_.clear();
  if (nodes_ < std::max(sweep_at_nodes_, kFirstSweepNodes)) return;
  nodes_ = sweep(roots_) + sweep(recomputed_);
  sweep_at_nodes_ = 2 * nodes_;
  std::erase_if(homes_, [](const auto& home) { return home.second.module.get() == nullptr; });
}

// Frees the nodes of modules that are gone; how many are left.
std::size_t ModuleCalls::sweep(Nodes& nodes) {
  std::erase_if(nodes, [](const auto& entry) { return entry.second->weak.get() == nullptr; });
  std::size_t left = nodes.size();
  for (auto& [module, node] : nodes) left += sweep(node->children);
  return left;
}

void ModuleCalls::clear() noexcept {
  roots_.clear();
  recomputed_.clear();
  retired_.clear();
  homes_.clear();
  nodes_ = 0;
}

}  // namespace torchprof
