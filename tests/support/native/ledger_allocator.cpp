// An allocator in front of torch's own that keeps books: what the recorder says is compared with it.
// With a plain C interface, for ctypes.
#include <c10/core/Allocator.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

constexpr c10::DeviceType kCpu = c10::DeviceType::CPU;

std::mutex mutex;
std::unordered_map<const void*, std::int64_t>* live =
    nullptr;  // size by address, since the books were opened
std::int64_t live_bytes = 0;
std::int64_t allocations = 0;
std::int64_t frees = 0;
c10::Allocator* base = nullptr;

void delete_block(void* block) {
  if (block != nullptr) {
    const std::lock_guard lock(mutex);
    if (const auto entry = live->find(block); entry != live->end()) {
      live_bytes -= entry->second;
      live->erase(entry);
      ++frees;
    }
  }
  base->raw_deleter()(block);
}

// As simple as torch's own (the deleter is all a block needs), or with a context of its own to each block.
class Ledger final : public c10::Allocator {
 public:
  explicit Ledger(bool with_contexts) : with_contexts_(with_contexts) {}

  c10::DataPtr allocate(std::size_t size_bytes) override {
    c10::DataPtr block = base->allocate(size_bytes);
    if (block.get() != nullptr) {
      const std::lock_guard lock(mutex);
      (*live)[block.get()] = static_cast<std::int64_t>(size_bytes);
      live_bytes += static_cast<std::int64_t>(size_bytes);
      ++allocations;
    }
    void* address = block.release_context();
    if (!with_contexts_) return {address, address, delete_block, kCpu};
    return {address, new void*(address), delete_held, kCpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return with_contexts_ ? nullptr : delete_block; }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    base->copy_data(to, from, size_bytes);
  }

 private:
  static void delete_held(void* context) {
    auto* address = static_cast<void**>(context);
    delete_block(*address);
    delete address;
  }

  bool with_contexts_;
};

Ledger simple(false);
Ledger with_contexts(true);

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Puts it in front of the allocator torch uses now.
EXPORTED void ledger_install(int has_contexts) {
  if (live == nullptr) live = new std::unordered_map<const void*, std::int64_t>;
  base = c10::GetAllocator(kCpu);
  c10::SetAllocator(kCpu, has_contexts != 0 ? &with_contexts : &simple);
}

// Takes it away again, unless another allocator was set meanwhile; blocks of it can still be freed.
EXPORTED int ledger_uninstall() {
  const c10::Allocator* current = c10::GetAllocator(kCpu);
  if (current != &simple && current != &with_contexts) return 0;
  c10::SetAllocator(kCpu, base);
  return 1;
}

// Forgets every block so far.
EXPORTED void ledger_open() {
  const std::lock_guard lock(mutex);
  live->clear();
  live_bytes = allocations = frees = 0;
}

EXPORTED std::int64_t ledger_live_bytes() {
  const std::lock_guard lock(mutex);
  return live_bytes;
}
EXPORTED std::int64_t ledger_allocations() {
  const std::lock_guard lock(mutex);
  return allocations;
}
EXPORTED std::int64_t ledger_frees() {
  const std::lock_guard lock(mutex);
  return frees;
}
// Of the allocator that torch uses now.
EXPORTED std::uintptr_t current_allocator() {
  return reinterpret_cast<std::uintptr_t>(c10::GetAllocator(kCpu));
}
EXPORTED std::uintptr_t current_raw_deleter() {
  return reinterpret_cast<std::uintptr_t>(c10::GetAllocator(kCpu)->raw_deleter());
}
// 1 when a block says of itself what its allocator promises, and can be freed without it.
EXPORTED int raw_round_trip(std::size_t size_bytes) {
  c10::Allocator& allocator = *c10::GetAllocator(kCpu);
  {
    c10::DataPtr block = allocator.allocate(size_bytes);
    if (block.get_deleter() != allocator.raw_deleter() || !allocator.is_simple_data_ptr(block)) return 0;
    auto context = block.move_context();
    if (context.get() == nullptr || block.get_context() != nullptr) return 0;
  }
  void* raw = allocator.raw_allocate(size_bytes);
  allocator.raw_deallocate(raw);
  c10::DataPtr block = allocator.allocate(size_bytes);
  static_cast<char*>(block.get())[0] = 'x';
  const c10::DataPtr copy = allocator.clone(block.get(), size_bytes);
  block.clear();
  return static_cast<const char*>(copy.get())[0] == 'x' && block.get() == nullptr ? 1 : 0;
}
