// What Python's functions are called in the recordings: a string id by slot, found without a lock or a copy.
//
// Everything here is called under the GIL, which is what guards it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/thread_state.h"

namespace torchprof {

enum class Visibility : std::uint8_t {
  kAlways,
  kUnlessCalledByHidden,  // the standard library and C functions: the recorder's own frames call them too
  kNever,                 // the recorder's own frames
};

// A function in the recordings of all slots.
struct FrameName {
  Visibility visibility = Visibility::kAlways;
  // The id holds where the epoch is the slot's: see NameEpochs.
  std::array<std::uint32_t, kSlots> epochs{};
  std::array<std::uint32_t, kSlots> ids{};
};

// Counts the recordings of each slot, so that ids of an earlier one are not taken for those of this one.
class NameEpochs {
 public:
  void begin_recording(std::uint32_t slot) noexcept { ++epochs_[slot]; }
  [[nodiscard]] bool knows(const FrameName& name, std::uint32_t slot) const noexcept {
    return name.epochs[slot] == epochs_[slot];
  }
  void set_id(FrameName& name, std::uint32_t slot, std::uint32_t id) const noexcept {
    name.ids[slot] = id;
    name.epochs[slot] = epochs_[slot];
  }

 private:
  std::array<std::uint32_t, kSlots> epochs_{};
};

// Where the code lies that is not the user's. Prefixes of `co_filename`, in UTF-8.
struct CodeLocations {
  std::string own_package;
  std::string standard_library;
  std::string site_packages;  // inside the standard library's folder, but not of it
};

// Names of Python functions, kept on their code objects (`co_extra`): they go when the code goes, so that a
// new code object at the address of an old one is never mistaken for it.
class CodeNames {
 public:
  // False, with a Python exception set, when CPython has no room for one more user of `co_extra`.
  [[nodiscard]] bool begin() noexcept;
  void set_locations(CodeLocations locations) noexcept { locations_ = std::move(locations); }

  // nullptr when there is no memory for it.
  FrameName* find(PyCodeObject* code) noexcept {
    void* name = nullptr;
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), index_, &name);
#else
    _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), index_, &name);
#endif
    return name != nullptr ? static_cast<FrameName*>(name) : add(code);
  }

 private:
  FrameName* add(PyCodeObject* code) noexcept;
  [[nodiscard]] Visibility visibility_of(PyCodeObject* code) const noexcept;

  Py_ssize_t index_ = -1;
  CodeLocations locations_;
};

// Names of C functions. Bound methods are made anew for each call, so that the key is what they share: the
// definition, and the object that keeps it alive, which is referred to while the name is kept.
class CFunctionNames {
 public:
  // nullptr when there is no memory for it.
  FrameName* find(PyCFunctionObject* function) noexcept {
    PyObject* owner = owner_of(function);
    for (std::size_t i = index_of(function->m_ml, owner, entries_.size());; i = (i + 1) & mask_) {
      Entry& entry = entries_[i];
      if (entry.definition == function->m_ml && entry.owner == owner) [[likely]] {
        return &entry.name;
      }
      if (entry.definition == nullptr) {
        return add(function, owner);
      }
    }
  }
  // Forgets all and lets their owners go.
  void clear() noexcept;

 private:
  static constexpr std::size_t kFirstEntries = 1024;
  static constexpr std::size_t kMaxEntries = 32'768;  // half of them used

  struct Entry {
    const PyMethodDef* definition = nullptr;
    PyObject* owner = nullptr;
    FrameName name;
  };

  static PyObject* owner_of(PyCFunctionObject* function) noexcept {
    PyObject* self = function->m_self;
    if (self == nullptr || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self)) {
      return self;
    }
    return reinterpret_cast<PyObject*>(Py_TYPE(self));
  }
  static std::size_t index_of(const PyMethodDef* definition, const PyObject* owner,
                              std::size_t capacity) noexcept {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    const auto a = reinterpret_cast<std::uintptr_t>(definition);
    const auto b = reinterpret_cast<std::uintptr_t>(owner);
    return (((a ^ (b << 1U)) * kOdd) >> 32U) & (capacity - 1);
  }
  FrameName* add(PyCFunctionObject* function, PyObject* owner) noexcept;
  bool grow() noexcept;

  std::vector<Entry> entries_ = std::vector<Entry>(2);  // a power of two, linear probing, at most half full
  std::size_t mask_ = 1;
  std::size_t count_ = 0;
};

// Texts for the recordings. They throw std::bad_alloc and leave no Python exception.
std::string qualified_name(PyCodeObject* code, PyFrameObject* frame);
std::string location(PyCodeObject* code);  // `file:line` of the definition
std::string qualified_name(PyCFunctionObject* function);

}  // namespace torchprof
