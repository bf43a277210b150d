#include "core/aggregate/count_cells.h"

#include <new>

namespace torchprof {

CountCells::~CountCells() {
  for (std::size_t p = 0; p < page_count_; ++p) {
    Page* page = pages_[p].load(std::memory_order_relaxed);
    for (std::size_t i = 0; page != nullptr && i < kPageCells; ++i) {
      delete page->cells[i].durations.load(std::memory_order_relaxed);
    }
    delete page;
  }
}

bool CountCells::make_page(std::atomic<Page*>& page) noexcept {
  page.store(new (std::nothrow) Page, std::memory_order_release);
  return page.load(std::memory_order_relaxed) != nullptr;
}

DurationHistogram* CountCells::durations_of(CountCell& cell) noexcept {
  DurationHistogram* durations = cell.durations.load(std::memory_order_relaxed);
  if (durations == nullptr) [[unlikely]] {
    durations = new (std::nothrow) DurationHistogram;
    cell.durations.store(durations, std::memory_order_release);
  }
  return durations;
}

}  // namespace torchprof
