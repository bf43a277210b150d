// What one thread has counted: a cell for each name and phase. Only the thread writes, without a lock and
// with plain stores; whoever collects reads while it does, and never sees a number torn.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/aggregate/duration_buckets.h"
#include "core/aggregate/phase.h"

namespace torchprof {

// For a counter that one thread writes: cheaper than fetch_add.
inline void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

struct CountCell {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> total_ticks{0};
  std::atomic<std::uint64_t> self_ticks{0};
  std::atomic<DurationHistogram*> durations{nullptr};
};

inline std::uint32_t cell_index(std::uint32_t name_id, Phase phase) noexcept {
  return name_id * static_cast<std::uint32_t>(kPhases) + static_cast<std::uint32_t>(phase);
}
inline Phase phase_of_cell(std::uint32_t index) noexcept { return static_cast<Phase>(index % kPhases); }

// Cells in pages that are made when a name of the page is met first.
class CountCells {
 public:
  // Throws std::bad_alloc.
  explicit CountCells(std::size_t max_names)
      : page_count_((max_names * kPhases + kPageCells - 1) / kPageCells),
        pages_(std::make_unique<std::atomic<Page*>[]>(page_count_)) {}
  ~CountCells();
  CountCells(const CountCells&) = delete;
  CountCells& operator=(const CountCells&) = delete;

  // Owner only. Whether there are cells of the name; false without memory for them.
  bool have(std::uint32_t name_id) noexcept {
    std::atomic<Page*>& page = pages_[name_id * kPhases / kPageCells];
    return page.load(std::memory_order_relaxed) != nullptr || make_page(page);
  }
  // Owner only, of a name that has cells.
  [[nodiscard]] CountCell& operator[](std::uint32_t index) noexcept {
    return pages_[index / kPageCells].load(std::memory_order_relaxed)->cells[index % kPageCells];
  }
  // Owner only. The histogram of a cell, made if need be; nullptr without memory.
  static DurationHistogram* durations_of(CountCell& cell) noexcept;

  // From any thread: `visit(index, cell)` for each cell there is.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t p = 0; p < page_count_; ++p) {
      const Page* page = pages_[p].load(std::memory_order_acquire);
      for (std::size_t i = 0; page != nullptr && i < kPageCells; ++i) {
        visit((p * kPageCells) + i, page->cells[i]);
      }
    }
  }

 private:
  // A power of two: indexing is a shift. 4 KiB; all phases of a name are on one page.
  static constexpr std::size_t kPageCells = 128;
  static_assert(kPageCells % kPhases == 0);
  struct Page {
    std::array<CountCell, kPageCells> cells{};
  };
  static bool make_page(std::atomic<Page*>& page) noexcept;

  const std::size_t page_count_;
  const std::unique_ptr<std::atomic<Page*>[]> pages_;
};

}  // namespace torchprof
