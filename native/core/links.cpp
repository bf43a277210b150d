#include "core/links.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace torchprof {
namespace {

// Torch numbers threads and nodes a process each.
struct ForwardThread {
  std::int64_t process_id;
  std::uint64_t torch_thread_id;
  auto operator<=>(const ForwardThread&) const = default;
};

struct ForwardOp {
  std::uint32_t thread;  // index of the ForwardThread
  std::int64_t sequence;
  std::int64_t start_ns;
  std::uint64_t row;
  auto operator<=>(const ForwardOp&) const = default;
};

bool is_backward(const EventTable& events, std::uint64_t row) {
  return events.forward_thread[row] != 0 && events.sequence[row] >= 0;
}

bool may_be_forward(const EventTable& events, std::uint64_t row) {
  return events.forward_thread[row] == 0 && events.sequence[row] >= 0 &&
         events.kind[row] == static_cast<std::uint8_t>(EventKind::kOp);
}

// The threads backward ops refer to; only their ops need to be looked at.
std::vector<ForwardThread> referenced_threads(const Recording& recording) {
  const EventTable& events = recording.events;
  std::vector<ForwardThread> threads;
  for (std::uint64_t row = 0; row < events.size(); ++row) {
    if (!is_backward(events, row)) continue;
    const ForwardThread thread{recording.tracks[events.track[row]].process_id, events.forward_thread[row]};
    if (threads.empty() || threads.back() != thread) threads.push_back(thread);
  }
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

// Index of a thread, threads.size() when no backward op refers to it.
std::uint32_t find_thread(const std::vector<ForwardThread>& threads, const ForwardThread& thread) {
  const auto found = std::lower_bound(threads.begin(), threads.end(), thread);
  const bool is_known = found != threads.end() && *found == thread;
  return static_cast<std::uint32_t>((is_known ? found : threads.end()) - threads.begin());
}

// In order of (thread, sequence, start, row).
std::vector<ForwardOp> forward_ops(const Recording& recording, const std::vector<ForwardThread>& threads) {
  const EventTable& events = recording.events;
  std::vector<std::uint32_t> thread_of_track;
  thread_of_track.reserve(recording.tracks.size());
  for (const Track& track : recording.tracks) {
    thread_of_track.push_back(find_thread(threads, {track.process_id, track.torch_thread_id}));
  }
  std::vector<ForwardOp> ops;
  for (std::uint64_t row = 0; row < events.size(); ++row) {
    if (!may_be_forward(events, row)) continue;
    const std::uint32_t thread = thread_of_track[events.track[row]];
    if (thread == threads.size()) continue;
    ops.push_back({thread, events.sequence[row], events.start_ns[row], row});
  }
  // A thread hands its numbers out in order, so there is rarely anything to sort.
  if (!std::is_sorted(ops.begin(), ops.end())) std::sort(ops.begin(), ops.end());
  return ops;
}

}  // namespace

LinkTable forward_backward_links(const Recording& recording) {
  const EventTable& events = recording.events;
  LinkTable links;
  const std::vector<ForwardThread> threads = referenced_threads(recording);
  if (threads.empty()) return links;
  const std::vector<ForwardOp> ops = forward_ops(recording, threads);

  for (std::uint64_t row = 0; row < events.size(); ++row) {
    if (!is_backward(events, row)) continue;
    const ForwardThread forward_thread{recording.tracks[events.track[row]].process_id,
                                       events.forward_thread[row]};
    const auto key = std::make_tuple(find_thread(threads, forward_thread), events.sequence[row]);
    const auto after =
        std::upper_bound(ops.begin(), ops.end(), key, [](const auto& wanted, const ForwardOp& op) {
          return wanted < std::make_tuple(op.thread, op.sequence);
        });
    if (after == ops.begin()) continue;
    const ForwardOp& last = *std::prev(after);
    if (std::make_tuple(last.thread, last.sequence) != key) continue;
    links.from.push_back(row);
    links.to.push_back(last.row);
    links.type.push_back(static_cast<std::uint32_t>(LinkType::kForwardBackward));
  }
  return links;
}

}  // namespace torchprof
