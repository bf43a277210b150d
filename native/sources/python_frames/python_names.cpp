#include "sources/python_frames/python_names.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

namespace torchprof {
namespace {

void free_name(void* name) { delete static_cast<FrameName*>(name); }

std::string text_of(PyObject* unicode) {
  if (unicode == nullptr || !PyUnicode_Check(unicode)) {
    return {};
  }
  Py_ssize_t size_bytes = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(unicode, &size_bytes); text != nullptr) {
    return {text, static_cast<std::size_t>(size_bytes)};
  }
  PyErr_Clear();
  // A lone surrogate: names and paths may have been bytes that are no UTF-8.
  PyObject* escaped = PyUnicode_AsEncodedString(unicode, "utf-8", "backslashreplace");
  if (escaped == nullptr) {
    PyErr_Clear();
    return {};
  }
  std::string text(PyBytes_AS_STRING(escaped), static_cast<std::size_t>(PyBytes_GET_SIZE(escaped)));
  Py_DECREF(escaped);
  return text;
}

std::string with_module(std::string module, std::string_view name) {
  if (module.empty() || module == "builtins") {
    return std::string(name);
  }
  return std::move(module).append(".").append(name);
}

// `module.Type`. Reads what the type holds: attributes could be the user's code.
std::string qualified_name(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
    return type->tp_name;  // with its module
  }
  PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
  return with_module(text_of(module), text_of(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname));
}

#if PY_VERSION_HEX < 0x030B0000
// Python 3.10 keeps the qualified name on the function only: a method is found by its first argument.
PyObject* find_method(PyCodeObject* code, PyFrameObject* frame) {
  PyObject* first = code->co_argcount > 0 ? frame->f_localsplus[0] : nullptr;
  if (first == nullptr) {
    return nullptr;
  }
  PyTypeObject* type = PyType_Check(first) ? reinterpret_cast<PyTypeObject*>(first) : Py_TYPE(first);
  PyObject* classes = type->tp_mro;
  for (Py_ssize_t i = 0; classes != nullptr && i < PyTuple_GET_SIZE(classes); ++i) {
    PyObject* members = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i))->tp_dict;
    PyObject* member = members != nullptr ? PyDict_GetItem(members, code->co_name) : nullptr;
    if (member != nullptr && PyFunction_Check(member) &&
        PyFunction_GET_CODE(member) == reinterpret_cast<PyObject*>(code)) {
      return member;
    }
  }
  return nullptr;
}
#endif

}  // namespace

std::string qualified_name(PyCodeObject* code, [[maybe_unused]] PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return text_of(code->co_qualname);
#else
  PyObject* method = find_method(code, frame);
  return text_of(method != nullptr ? reinterpret_cast<PyFunctionObject*>(method)->func_qualname
                                   : code->co_name);
#endif
}

std::string location(PyCodeObject* code) {
  return text_of(code->co_filename).append(":").append(std::to_string(code->co_firstlineno));
}

std::string qualified_name(PyCFunctionObject* function) {
  const std::string_view name = function->m_ml->ml_name;
  PyObject* self = function->m_self;
  if (self == nullptr || PyModule_Check(self) || PyCapsule_CheckExact(self)) {
    std::string module = text_of(function->m_module);
    if (module.empty() && self != nullptr && PyModule_Check(self)) {
      const char* module_name = PyModule_GetName(self);
      PyErr_Clear();
      module = module_name != nullptr ? module_name : "";
    }
    return with_module(std::move(module), name);
  }
  auto* type = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
  return qualified_name(type).append(".").append(name);
}

bool CodeNames::begin() noexcept {
  if (index_ < 0) {
#if PY_VERSION_HEX >= 0x030C0000
    index_ = PyUnstable_Eval_RequestCodeExtraIndex(free_name);
#else
    index_ = _PyEval_RequestCodeExtraIndex(free_name);
#endif
  }
  if (index_ < 0) {
    PyErr_SetString(PyExc_RuntimeError, "CPython has no room for one more user of code objects");
    return false;
  }
  return true;
}

FrameName* CodeNames::add(PyCodeObject* code) noexcept {
  auto* name = new (std::nothrow) FrameName{.visibility = visibility_of(code), .epochs = {}, .ids = {}};
  if (name == nullptr) {
    return nullptr;
  }
#if PY_VERSION_HEX >= 0x030C0000
  const int failed = PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index_, name);
#else
  const int failed = _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index_, name);
#endif
  if (failed != 0) {
    PyErr_Clear();
    delete name;
    return nullptr;
  }
  return name;
}

Visibility CodeNames::visibility_of(PyCodeObject* code) const noexcept {
  try {
    const std::string file = text_of(code->co_filename);
    if (file.starts_with(locations_.own_package)) {
      return Visibility::kNever;
    }
    const bool is_library = file.starts_with("<frozen ") || (file.starts_with(locations_.standard_library) &&
                                                             !file.starts_with(locations_.site_packages));
    return is_library ? Visibility::kUnlessCalledByHidden : Visibility::kAlways;
  } catch (const std::bad_alloc&) {
    return Visibility::kAlways;
  }
}

FrameName* CFunctionNames::add(PyCFunctionObject* function, PyObject* owner) noexcept {
  if (2 * (count_ + 1) > entries_.size() && !grow()) {
    return nullptr;
  }
  std::size_t i = index_of(function->m_ml, owner, entries_.size());
  while (entries_[i].definition != nullptr) {
    i = (i + 1) & mask_;
  }
  Py_XINCREF(owner);
  entries_[i] = {.definition = function->m_ml,
                 .owner = owner,
                 .name = {.visibility = Visibility::kUnlessCalledByHidden, .epochs = {}, .ids = {}}};
  ++count_;
  return &entries_[i].name;
}

bool CFunctionNames::grow() noexcept {
  if (entries_.size() >= kMaxEntries) {
    clear();  // their names are found again
  }
  try {
    std::vector<Entry> larger(std::max(2 * entries_.size(), kFirstEntries));
    for (const Entry& entry : entries_) {
      if (entry.definition == nullptr) {
        continue;
      }
      std::size_t i = index_of(entry.definition, entry.owner, larger.size());
      while (larger[i].definition != nullptr) {
        i = (i + 1) & (larger.size() - 1);
      }
      larger[i] = entry;
    }
    entries_ = std::move(larger);
    mask_ = entries_.size() - 1;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void CFunctionNames::clear() noexcept {
  std::vector<Entry> forgotten;
  try {
    forgotten.resize(2);
  } catch (const std::bad_alloc&) {
    return;
  }
  // Letting an owner go may run Python, and that this very table.
  forgotten.swap(entries_);
  mask_ = 1;
  count_ = 0;
  for (const Entry& entry : forgotten) {
    Py_XDECREF(entry.owner);
  }
}

}  // namespace torchprof
