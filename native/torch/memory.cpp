// An allocator in front of the one torch uses on the CPU. It allocates nothing itself: what it hands out is
// the other's, with a deleter that reports the free and then runs the other's. Whatever was allocated through
// it is therefore freed rightly long after it was taken away.
#include "torch/memory.h"

#include <c10/core/Allocator.h>

#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "torch/bridge_abi.h"
#include "torch/core_table.h"
#include "torch/switch_lock.h"

namespace torchprof::bridge {
namespace {

constexpr c10::DeviceType kCpu = c10::DeviceType::CPU;
// Allocators that ours may stand in front of in the life of a process: torch's own, and others that a program
// sets. A deleter is a plain function, so there is one for each.
constexpr std::size_t kMaxBases = 8;

// A bit a slot.
std::atomic<std::uint32_t> reporting_slots{0};

// An allocator set after ours may call ours: what happens inside is reported once, by the outermost.
class Outermost {
 public:
  Outermost() : mark_(*core->allocator_mark()), entered_(std::exchange(mark_, std::uint8_t{1}) == 0) {}
  ~Outermost() {
    if (entered_) mark_ = 0;
  }
  Outermost(const Outermost&) = delete;
  Outermost& operator=(const Outermost&) = delete;

  explicit operator bool() const { return entered_; }

 private:
  std::uint8_t& mark_;
  bool entered_;
};

bool is_reporting() { return reporting_slots.load(std::memory_order_relaxed) != 0; }

void report_cpu(std::uint8_t action, const void* address, std::size_t size_bytes) noexcept {
  report_memory(action, reinterpret_cast<std::uintptr_t>(address), size_bytes,
                static_cast<std::uint8_t>(kCpu), -1);
}

// Runs `free_block` and reports it first: afterwards the address may be another thread's already.
template <typename FreeBlock>
void report_and_free(const void* address, FreeBlock free_block) {
  if (address == nullptr || !is_reporting()) [[likely]]
    return free_block();
  const Outermost outermost;
  if (outermost) report_cpu(TORCHPROF_MEMORY_FREED, address, 0);
  free_block();
}

// Set before the deleter of the same number is.
std::array<c10::DeleterFnPtr, kMaxBases> base_deleters{};

template <std::size_t Number>
void delete_block(void* block) {
  report_and_free(block, [block] { base_deleters[Number](block); });
}

template <std::size_t... Numbers>
c10::DeleterFnPtr deleter_of(std::size_t number, std::index_sequence<Numbers...>) {
  constexpr std::array<c10::DeleterFnPtr, kMaxBases> deleters{delete_block<Numbers>...};
  return deleters[number];
}

// A block of an allocator whose blocks need more than their address to be freed.
void delete_held_block(void* context) {
  std::unique_ptr<c10::DataPtr> block(static_cast<c10::DataPtr*>(context));
  report_and_free(block->get(), [&block] { block.reset(); });
}

// Never destroyed: tensors refer to the allocator they came from for as long as they live.
class ReportingAllocator final : public c10::Allocator {
 public:
  ReportingAllocator(c10::Allocator& base, std::size_t number)
      : base_(base),
        base_deleter_(base.raw_deleter()),
        deleter_(base_deleter_ == nullptr ? nullptr
                                          : deleter_of(number, std::make_index_sequence<kMaxBases>())) {
    base_deleters[number] = base_deleter_;
  }

  [[nodiscard]] c10::Allocator& base() const { return base_; }

  c10::DataPtr allocate(std::size_t size_bytes) override {
    if (!is_reporting()) return watched(base_.allocate(size_bytes)).block;
    const Outermost outermost;
    Watched made = [&] {
      try {
        // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the block's deleter deletes its context
        return watched(base_.allocate(size_bytes));
      } catch (...) {
        if (outermost) report_cpu(TORCHPROF_MEMORY_OUT_OF_MEMORY, nullptr, size_bytes);
        throw;
      }
    }();
    if (outermost && made.is_watched && made.block.get() != nullptr) {
      report_cpu(TORCHPROF_MEMORY_ALLOCATED, made.block.get(), size_bytes);
    }
    return std::move(made.block);
  }

  c10::DeleterFnPtr raw_deleter() const override { return deleter_; }

  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    if (block.get_deleter() == delete_held_block) {
      return base_.is_simple_data_ptr(*static_cast<const c10::DataPtr*>(block.get_context()));
    }
    return base_.is_simple_data_ptr(block);
  }

  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    base_.copy_data(to, from, size_bytes);
  }

 private:
  struct Watched {
    c10::DataPtr block;
    bool is_watched;  // its free will be seen
  };

  // The block with a deleter of ours; as it is when it comes with another deleter than its allocator
  // promises.
  Watched watched(c10::DataPtr block) const {
    if (base_deleter_ != nullptr) {
      const bool is_watched = block.compare_exchange_deleter(base_deleter_, deleter_);
      return {std::move(block), is_watched};
    }
    std::unique_ptr<c10::DataPtr> held(new (std::nothrow) c10::DataPtr);
    if (held == nullptr) return {std::move(block), false};
    *held = std::move(block);
    c10::DataPtr* const context = held.release();  // delete_held_block deletes it
    return {c10::DataPtr(context->get(), context, delete_held_block, context->device()), true};
  }

  c10::Allocator& base_;
  const c10::DeleterFnPtr base_deleter_;
  const c10::DeleterFnPtr deleter_;
};

std::array<ReportingAllocator*, kMaxBases> installed{};
std::uint8_t installed_priority = 0;

ReportingAllocator* ours(const c10::Allocator* allocator) {
  for (ReportingAllocator* candidate : installed) {
    if (candidate == allocator) return candidate;
  }
  return nullptr;
}

// nullptr when there are too many.
ReportingAllocator* in_front_of(c10::Allocator& base) {
  for (std::size_t number = 0; number < kMaxBases; ++number) {
    if (installed[number] == nullptr) installed[number] = new ReportingAllocator(base, number);
    if (&installed[number]->base() == &base) return installed[number];
  }
  return nullptr;
}

// torch keeps the priority of who set an allocator to itself, and lets no lower one replace it. The lowest
// that works is the one in force, and leaves it so.
bool set_allocator(c10::Allocator& allocator, std::uint8_t lowest_priority, std::uint8_t& priority) {
  for (unsigned tried = lowest_priority; tried <= std::numeric_limits<std::uint8_t>::max(); ++tried) {
    priority = static_cast<std::uint8_t>(tried);
    c10::SetAllocator(kCpu, &allocator, priority);
    if (c10::GetAllocator(kCpu) == &allocator) return true;
  }
  return false;
}

int install() {
  c10::Allocator* current = c10::GetAllocator(kCpu);
  if (ours(current) != nullptr) return TORCHPROF_OK;
  ReportingAllocator* front = in_front_of(*current);
  if (front == nullptr) return TORCHPROF_TOO_MANY_ALLOCATORS;
  return set_allocator(*front, 0, installed_priority) ? TORCHPROF_OK : TORCHPROF_TORCH_REFUSED;
}

// Leaves an allocator alone that somebody set after ours: it may call ours.
void uninstall() {
  if (const ReportingAllocator* front = ours(c10::GetAllocator(kCpu)); front != nullptr) {
    std::uint8_t priority = 0;
    set_allocator(front->base(), installed_priority, priority);
  }
}

}  // namespace

void report_memory(std::uint8_t action, std::uint64_t address, std::uint64_t size_bytes,
                   std::uint8_t device_type, std::int32_t device) noexcept {
  const torchprof_memory_event event{
      .address = address,
      .size_bytes = size_bytes,
      .device = device,
      .device_type = device_type,
      .action = action,
  };
  std::uint32_t slots = reporting_slots.load(std::memory_order_relaxed);
  for (; slots != 0; slots &= slots - 1) {
    core->memory_event(static_cast<std::uint32_t>(std::countr_zero(slots)), &event);
  }
}

int enable_memory(std::uint32_t slot) {
  if (slot >= TORCHPROF_CAPTURE_SLOTS) return TORCHPROF_NO_SUCH_SLOT;
  try {
    const std::unique_lock lock = lock_switches();
    const int code = install();
    if (code == TORCHPROF_OK) reporting_slots.fetch_or(1U << slot, std::memory_order_relaxed);
    return code;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

int disable_memory(std::uint32_t slot) {
  if (slot >= TORCHPROF_CAPTURE_SLOTS) return TORCHPROF_NO_SUCH_SLOT;
  try {
    const std::unique_lock lock = lock_switches();
    const std::uint32_t bit = 1U << slot;
    const std::uint32_t before = reporting_slots.fetch_and(~bit, std::memory_order_relaxed);
    if (before == bit) uninstall();
    return TORCHPROF_OK;
  } catch (...) {
    return TORCHPROF_TORCH_REFUSED;
  }
}

}  // namespace torchprof::bridge
