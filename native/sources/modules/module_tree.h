// Where the modules that a program calls stand in each other: `encoder.layers.0.attn`.
//
// A tree of calls: a node stands for a module as called from within the modules above it, so that a module
// which several others share has a node, and a path, under each. Everything here needs the GIL; nothing here
// keeps a module alive.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace torchprof {

class WeakObject {
 public:
  WeakObject() = default;
  // Empty when the object takes no weak references. May run Python code.
  explicit WeakObject(PyObject* object);

  // Borrowed; nullptr when the object is gone.
  [[nodiscard]] PyObject* get() const noexcept;

 private:
  nanobind::object reference_;
};

// The way from a module to one that it holds: keys in `_modules`, none for the module itself.
class ModuleWay {
 public:
  ModuleWay() = default;
  ModuleWay(WeakObject base, std::vector<nanobind::object> keys);

  // The first way in the order of `named_modules()`, of direct children before all others; without a base
  // when `base` does not hold the module. Runs no Python code.
  [[nodiscard]] static ModuleWay find(const WeakObject& base, PyObject* module);

  [[nodiscard]] bool has_base() const noexcept { return base_.get() != nullptr; }
  // Whether the module is still there: modules come, go and move. Runs no Python code.
  [[nodiscard]] bool leads_to(PyObject* module) const noexcept;
  // The way of `inner`, which goes on where this one ends.
  [[nodiscard]] ModuleWay followed_by(const ModuleWay& inner) const;
  // The keys joined with dots after a prefix.
  [[nodiscard]] std::string path_from(const std::string& prefix) const;

 private:
  WeakObject base_;
  std::vector<nanobind::object> keys_;
};

struct ModuleNode {
  PyObject* module = nullptr;  // an identity: borrowed, and gone when `weak` says so
  WeakObject weak;
  PyTypeObject* type = nullptr;  // lazy modules change theirs; never dereferenced
  std::string class_name;
  std::string path;               // empty for what no module around it holds
  const ModuleNode* root = this;  // what the path counts from
  ModuleWay way;                  // from the nearest module around it that holds it
  ModuleWay home;                 // from the root
  std::uint64_t searched_in = 0;  // without a way: the outermost call in which it was last looked for
  std::uint32_t captures = 0;     // bit 1 << slot for each that saw it called
  std::unordered_map<PyObject*, std::unique_ptr<ModuleNode>> children;

  [[nodiscard]] bool is(PyObject* other) const noexcept { return module == other && weak.get() == other; }
};

}  // namespace torchprof
