#include "sources/modules/module_tree.h"

#include <unordered_set>
#include <utility>

namespace torchprof {
namespace {

namespace nb = nanobind;

// Of a module: borrowed, nullptr for what has no dictionary of modules, such as a scripted one.
PyObject* modules_of(PyObject* module) noexcept {
  static PyObject* const key = PyUnicode_InternFromString("_modules");
  PyObject* attributes = PyObject_GenericGetDict(module, nullptr);
  if (attributes == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* modules = PyDict_GetItem(attributes, key);
  Py_DECREF(attributes);  // the module holds it
  return modules != nullptr && PyDict_Check(modules) ? modules : nullptr;
}

// The key under which a module directly holds another; nullptr when it does not.
PyObject* key_of_child(PyObject* modules, PyObject* module) noexcept {
  PyObject* key = nullptr;
  PyObject* child = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(modules, &position, &key, &child) != 0;) {
    if (child == module && PyUnicode_CheckExact(key)) return key;
  }
  return nullptr;
}

// A dictionary of modules that is being searched, and how far.
struct Level {
  PyObject* modules;
  Py_ssize_t position;
  PyObject* key;  // that leads here from the level above
};

// Depth first, each module once: the order of `named_modules()`.
std::vector<PyObject*> search(PyObject* modules, PyObject* wanted) {
  std::vector<Level> levels{{modules, 0, nullptr}};
  std::unordered_set<PyObject*> seen;
  while (!levels.empty()) {
    PyObject* key = nullptr;
    PyObject* child = nullptr;
    if (PyDict_Next(levels.back().modules, &levels.back().position, &key, &child) == 0) {
      levels.pop_back();
      continue;
    }
    if (!PyUnicode_CheckExact(key) || !seen.insert(child).second) continue;
    if (child == wanted) {
      std::vector<PyObject*> keys;
      for (std::size_t level = 1; level < levels.size(); ++level) keys.push_back(levels[level].key);
      keys.push_back(key);
      return keys;
    }
    if (PyObject* inner = modules_of(child); inner != nullptr) levels.push_back({inner, 0, key});
  }
  return {};
}

}  // namespace

WeakObject::WeakObject(PyObject* object) : reference_(nb::steal(PyWeakref_NewRef(object, nullptr))) {
  if (!reference_.is_valid()) PyErr_Clear();
}

PyObject* WeakObject::get() const noexcept {
  if (!reference_.is_valid()) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference_.ptr(), &object) != 1) return nullptr;
  Py_DECREF(object);  // the GIL is held, and whoever asks does not let it go
  return object;
#else
  PyObject* const object = PyWeakref_GET_OBJECT(reference_.ptr());
  return object == Py_None ? nullptr : object;
#endif
}

ModuleWay::ModuleWay(WeakObject base, std::vector<nb::object> keys)
    : base_(std::move(base)), keys_(std::move(keys)) {}

ModuleWay ModuleWay::find(const WeakObject& base, PyObject* module) {
  PyObject* const start = base.get();
  if (start == nullptr) return {};
  if (start == module) return {base, {}};
  PyObject* const modules = modules_of(start);
  if (modules == nullptr) return {};
  std::vector<nb::object> keys;
  if (PyObject* key = key_of_child(modules, module); key != nullptr) {
    keys.push_back(nb::borrow(key));
  } else {
    for (PyObject* step : search(modules, module)) keys.push_back(nb::borrow(step));
  }
  if (keys.empty()) return {};
  return {base, std::move(keys)};
}

bool ModuleWay::leads_to(PyObject* module) const noexcept {
  PyObject* at = base_.get();
  if (at == nullptr) return false;
  for (const nb::object& key : keys_) {
    PyObject* const modules = modules_of(at);
    if (modules == nullptr) return false;
    at = PyDict_GetItem(modules, key.ptr());
    if (at == nullptr) return false;
  }
  return at == module;
}

ModuleWay ModuleWay::followed_by(const ModuleWay& inner) const {
  std::vector<nb::object> keys = keys_;
  keys.insert(keys.end(), inner.keys_.begin(), inner.keys_.end());
  return {base_, std::move(keys)};
}

std::string ModuleWay::path_from(const std::string& prefix) const {
  std::string path = prefix;
  for (const nb::object& key : keys_) {
    Py_ssize_t size_bytes = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size_bytes);
    if (!path.empty()) path += '.';
    if (text != nullptr) {
      path.append(text, static_cast<std::size_t>(size_bytes));
    } else {
      PyErr_Clear();  // a lone surrogate
      path += '?';
    }
  }
  return path;
}

}  // namespace torchprof
