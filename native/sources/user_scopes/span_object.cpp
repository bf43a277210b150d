#include "sources/user_scopes/span_object.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/user_scope.h"
#include "sources/python/error_type.h"

namespace torchprof {
namespace {

namespace nb = nanobind;

// Someone is inside the block; the GIL guards it.
struct Entry {
  UserScope scope;
  unsigned long thread = 0;
};

struct Span {
  PyObject_HEAD PyObject* name;
  PyObject* encoded;  // the bytes of a name that is no UTF-8, else nullptr
  const char* text;   // of one of them
  Entry first;
  bool is_entered;  // `first` is in use
  // One object may be entered again before it is left, by its own thread or by others.
  std::vector<std::unique_ptr<Entry>>* more;
};

PyTypeObject* span_type = nullptr;      // never freed
PyObject* decorate_function = nullptr;  // likewise
PyObject* observer = nullptr;           // told of every scope that has begun

Span* of(PyObject* self) noexcept { return reinterpret_cast<Span*>(self); }

// Fails only without memory.
bool set_name(Span& span, PyObject* name) noexcept {
  span.text = PyUnicode_AsUTF8(name);
  if (span.text == nullptr) {
    PyErr_Clear();
    span.encoded = PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace");  // a lone surrogate
    if (span.encoded == nullptr) return false;
    span.text = PyBytes_AS_STRING(span.encoded);
  }
  span.name = Py_NewRef(name);
  return true;
}

PyObject* make_span(PyObject*, PyObject* name) noexcept {
  if (!PyUnicode_Check(name)) {
    return PyErr_Format(PyExc_TypeError,
                        "span() takes the name of the scope, a str, not %R: write span(\"name\")", name);
  }
  Span* const span = PyObject_New(Span, span_type);
  if (span == nullptr) return nullptr;
  span->name = span->encoded = nullptr;
  span->is_entered = false;
  span->more = nullptr;
  new (&span->first) Entry;
  if (!set_name(*span, name)) {
    Py_DECREF(span);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(span);
}

Entry& new_entry(Span& span) {
  if (!span.is_entered) {
    span.is_entered = true;
    return span.first;
  }
  if (span.more == nullptr) span.more = new std::vector<std::unique_ptr<Entry>>;
  return *span.more->emplace_back(std::make_unique<Entry>());
}

void tell_observer() noexcept {
  const nb::object told = nb::borrow(observer);  // it may be replaced meanwhile
  const nb::object result = nb::steal(PyObject_CallNoArgs(told.ptr()));
  if (!result.is_valid()) PyErr_Clear();
}

PyObject* enter(PyObject* self, PyObject*) noexcept {
  Span& span = *of(self);
  try {
    Entry& entry = new_entry(span);
    entry.thread = PyThread_get_thread_ident();
    entry.scope.begin(span.text);
    if (observer != nullptr) tell_observer();
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  return Py_NewRef(self);
}

// `error`: what it ends with, empty = no error.
void end(Entry& entry, const std::string& error) noexcept {
  if (!error.empty()) entry.scope.fail(error.c_str());
  entry.scope.end();
}

void leave_one_of_many(Span& span, const std::string& error) noexcept {
  // The latest of this thread; one that was entered elsewhere and handed over, else.
  std::vector<std::unique_ptr<Entry>>& more = *span.more;
  const unsigned long thread = PyThread_get_thread_ident();
  const auto own = std::find_if(more.rbegin(), more.rend(),
                                [thread](const auto& entry) { return entry->thread == thread; });
  if (own == more.rend() && span.is_entered && span.first.thread == thread) {
    end(span.first, error);
    span.is_entered = false;
    return;
  }
  const auto left = own != more.rend() ? std::prev(own.base()) : std::prev(more.end());
  end(**left, error);
  more.erase(left);
}

PyObject* leave(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
  Span& span = *of(self);
  const std::string error = count > 0 ? error_type(arguments[0]) : std::string();
  if (span.more != nullptr && !span.more->empty()) {
    leave_one_of_many(span, error);
  } else if (span.is_entered) {
    end(span.first, error);
    span.is_entered = false;
  }
  Py_RETURN_NONE;
}

PyObject* decorate(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
  PyObject* function = nullptr;
  static char* names[] = {const_cast<char*>(""), nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "O:span", names, &function) == 0) return nullptr;
  return PyObject_CallFunctionObjArgs(decorate_function, function, of(self)->name, nullptr);
}

PyObject* represent(PyObject* self) noexcept { return PyUnicode_FromFormat("span(%R)", of(self)->name); }

void deallocate_span(PyObject* self) noexcept {
  Span& span = *of(self);
  // Entered by hand and never left: it ends with the last who could.
  if (span.is_entered) span.first.scope.end();
  if (span.more != nullptr) {
    for (const auto& entry : *span.more) entry->scope.end();
    delete span.more;
  }
  Py_XDECREF(span.encoded);
  Py_XDECREF(span.name);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

template <typename Function>
void* slot_of(Function function) noexcept {
  return reinterpret_cast<void*>(function);
}

PyMethodDef span_methods[] = {
    {"__enter__", enter, METH_NOARGS, "Begins the scope."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave)), METH_FASTCALL,
     "Ends the scope, as a failed one with an error; exceptions pass."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef module_functions[] = {
    {"span", make_span, METH_O,
     "span($module, name, /)\n--\n\n"
     "A scope of the program under a name, as a context manager or a decorator.\n\n"
     "Whatever records or counts when the scope begins sees an event as of `record_function`; when nothing\n"
     "does, it costs next to nothing. A decorated generator, coroutine or asynchronous generator is a scope\n"
     "while it runs: an event for each stretch between two suspensions. One object may be entered many "
     "times,\n"
     "and left on another thread. Traced by torch.compile it is nothing.\n\n"
     "Args:\n"
     "    name: what the scope is called in recordings.\n\n"
     "Raises:\n"
     "    TypeError: the name is no str, or what is decorated no function."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void set_span_decorator(nb::object function) noexcept {
  Py_XDECREF(std::exchange(decorate_function, function.release().ptr()));
}

void set_span_observer(nb::object function) noexcept {
  PyObject* const next = function.is_none() ? nullptr : function.release().ptr();
  Py_XDECREF(std::exchange(observer, next));
}

void add_span(nb::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("A scope of the program: see `span`.")},
      {Py_tp_dealloc, slot_of(deallocate_span)},
      {Py_tp_methods, span_methods},
      {Py_tp_call, slot_of(decorate)},
      {Py_tp_repr, slot_of(represent)},
      {0, nullptr},
  };
  PyType_Spec spec{.name = "otel_torchprof._native.core.Span",
                   .basicsize = sizeof(Span),
                   .itemsize = 0,
                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                   .slots = slots};
  span_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (span_type == nullptr ||
      PyModule_AddObjectRef(module.ptr(), "Span", reinterpret_cast<PyObject*>(span_type)) != 0 ||
      PyModule_AddFunctions(module.ptr(), module_functions) != 0) {
    throw nb::python_error();
  }
}

}  // namespace torchprof
