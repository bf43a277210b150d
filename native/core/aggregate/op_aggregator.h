// Counts every operator without recording it: how often each name ran, for how long, in which phase. One
// counts at a time in a process; captures may record beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/aggregate/count_drop.h"
#include "core/aggregate/duration_buckets.h"
#include "core/aggregate/phase.h"
#include "core/aggregate/shared_counts.h"

namespace torchprof {

inline constexpr std::size_t kMaxCountedNames = std::size_t{1} << 20U;

// A row for each name and phase that was counted. Names live as long as the aggregator.
struct OpCountColumns {
  std::vector<std::string_view> name;
  std::vector<Phase> phase;
  std::vector<std::uint8_t> is_user;
  std::vector<std::uint64_t> calls;
  std::vector<std::uint64_t> total_ns;
  std::vector<std::uint64_t> self_ns;
  std::vector<std::uint64_t> duration_counts;  // kDurationBuckets a row; empty without histograms
};

// Methods may be called from any thread. In the child of a fork one that was made in the parent is lost: it
// has counted nothing there and never will.
class OpAggregator {
 public:
  // Throws std::invalid_argument for a number of names outside 1 to kMaxCountedNames, std::bad_alloc,
  // std::system_error.
  OpAggregator(std::size_t max_names, bool with_durations);
  // Stops, and waits until no thread is inside a hook: at most about two seconds.
  ~OpAggregator();
  OpAggregator(const OpAggregator&) = delete;
  OpAggregator& operator=(const OpAggregator&) = delete;

  // Counts what the hooks report, each op once. Counts go on where they stopped. Throws std::runtime_error
  // while another counts, or when this one is lost.
  void start();
  // Idempotent.
  void stop() noexcept;
  // Each op that begins from now on counts for `weight`; 0 counts none. What is open at a change counts as it
  // would have, unless its thread begins an op of another weight before it ends: then it is given up.
  // Throws std::invalid_argument above CountControl::kMaxWeight.
  void set_weight(std::uint64_t weight);
  void set_inference(bool is_inference) noexcept { shared_->set_inference(is_inference); }

  // Everything counted so far; no number is ever less than it was. Stops no thread.
  [[nodiscard]] OpCountColumns collect();
  // Ops that were counted, each once whatever its weight.
  [[nodiscard]] std::uint64_t counted() const;
  [[nodiscard]] CountDrops drops() const;
  [[nodiscard]] bool lost_in_fork() const noexcept { return shared_->lost_in_fork(); }

 private:
  // Counter ticks that only grow, as ns that only grow: what is new is converted with the rate known by then.
  struct TickSum {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
    double rest_ns = 0;

    std::uint64_t advance_to(std::uint64_t new_ticks, double ns_per_tick) noexcept;
  };
  struct Times {
    TickSum total;
    TickSum self;
  };

  std::unique_ptr<SharedCounts> shared_;
  mutable std::mutex collect_mutex_;
  std::vector<Times> times_;  // by cell
};

}  // namespace torchprof
