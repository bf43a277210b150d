#include "core/scope_frames.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/tree.h"

namespace torchprof {
namespace {

bool is_frame(std::uint8_t kind) noexcept {
  return kind == static_cast<std::uint8_t>(EventKind::kPython) ||
         kind == static_cast<std::uint8_t>(EventKind::kPythonC);
}

bool is_scope(std::uint8_t kind) noexcept { return kind == static_cast<std::uint8_t>(EventKind::kUser); }

bool has_frames_and_scopes(const EventTable& events) {
  return std::any_of(events.kind.begin(), events.kind.end(), is_frame) &&
         std::any_of(events.kind.begin(), events.kind.end(), is_scope);
}

// `torch.ops.profiler._record_function_enter_new(...)`, called without a context manager around it.
bool calls_torch_op(std::string_view function) {
  return function == "OpOverloadPacket.__call__" || function == "OpOverload.__call__" ||
         function == "TorchBindOpOverload.__call__";
}

// What a function is called inside its class or module.
std::string_view last_part(std::string_view function) {
  return function.substr(function.rfind('.') + 1);  // npos + 1 is 0
}

// `place`: its file and line. torch's profiler ends a step and begins the next one in a method of its own.
bool begins_and_ends_scopes(std::string_view function, std::string_view place) {
  return calls_torch_op(function) || place.find("torch/profiler/profiler.py:") != std::string_view::npos;
}

bool enters(std::string_view function, std::string_view place) {
  const std::string_view name = last_part(function);
  return name == "__enter__" || name == "enter_context" || begins_and_ends_scopes(function, place);
}

bool leaves(std::string_view function, std::string_view place) {
  return last_part(function) == "__exit__" || begins_and_ends_scopes(function, place);
}

class ScopeFrames {
 public:
  explicit ScopeFrames(Recording& recording) : events_(recording.events), strings_(recording.strings) {}

  void cut() {
    for (std::size_t row = 0; row < events_.size(); ++row) {
      if (row > 0 && events_.track[row] != events_.track[row - 1]) open_.clear();
      if (is_async(events_.flags[row])) continue;
      while (!open_.empty() && events_.end_ns[open_.back()] <= events_.start_ns[row]) open_.pop_back();
      if (is_scope(events_.kind[row])) cut_entering(row);
      if (is_frame(events_.kind[row])) cut_leaving(row);
      open_.resize(open_.size() - crossed_by(row).size());
      open_.push_back(row);
    }
    keep_order();
  }

 private:
  // What began before the event and ends inside it, outermost first.
  std::span<const std::size_t> crossed_by(std::size_t row) const {
    std::size_t first = open_.size();
    while (first > 0 && events_.end_ns[open_[first - 1]] < events_.end_ns[row]) --first;
    return std::span(open_).subspan(first);
  }

  void cut_entering(std::size_t scope) {
    const std::span<const std::size_t> frames = crossed_by(scope);
    const bool are_frames = std::all_of(frames.begin(), frames.end(),
                                        [&](std::size_t row) { return is_frame(events_.kind[row]); });
    if (frames.empty() || !are_frames || !enters(name(frames.front()), place(frames.front()))) return;
    for (const std::size_t frame : frames) cut_at(frame, events_.start_ns[scope]);
  }

  void cut_leaving(std::size_t frame) {
    const std::span<const std::size_t> scopes = crossed_by(frame);
    if (scopes.empty()) return;
    // What the call of `__exit__` calls crosses the scope too, and that call as it is now.
    const bool is_called = !cut_.empty() && scopes.back() == cut_.back();
    const bool are_scopes = std::all_of(scopes.begin(), scopes.end(),
                                        [&](std::size_t row) { return is_scope(events_.kind[row]); });
    if (!is_called && !(are_scopes && leaves(name(frame), place(frame)))) return;
    cut_at(frame, events_.end_ns[scopes.back()]);
  }

  void cut_at(std::size_t frame, std::int64_t end_ns) {
    events_.end_ns[frame] = end_ns;
    cut_.push_back(frame);
  }

  // Of events that start together the longest comes first. Where a cut frame is no longer the longest it gets
  // as long as the next one.
  void keep_order() {
    std::sort(cut_.begin(), cut_.end());
    for (std::size_t i = cut_.size(); i-- > 0;) {
      const std::size_t row = cut_[i];
      const std::size_t next = row + 1;
      if (next == events_.size() || events_.track[next] != events_.track[row]) continue;
      if (events_.start_ns[next] == events_.start_ns[row]) {
        events_.end_ns[row] = std::max(events_.end_ns[row], events_.end_ns[next]);
      }
    }
  }

  std::string_view name(std::size_t row) const { return strings_.name(events_.name[row]); }
  std::string_view place(std::size_t row) const { return strings_.overload(events_.name[row]); }

  EventTable& events_;
  const StringPool& strings_;
  // Synchronous events that are open on the track at hand, in order of start. Their ends never rise: an event
  // pushes off those that end before it does.
  std::vector<std::size_t> open_;
  std::vector<std::size_t> cut_;
};

}  // namespace

void cut_frames_at_scopes(Recording& recording) {
  if (has_frames_and_scopes(recording.events)) ScopeFrames(recording).cut();
}

}  // namespace torchprof
