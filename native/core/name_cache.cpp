#include "core/name_cache.h"

#include <algorithm>
#include <new>

namespace torchprof {

void NameCache::clear() noexcept {
  by_pointer_.fill(nullptr);
  by_text_.reset();
  text_capacity_ = 0;
  text_count_ = 0;
}

const StringEntry& NameCache::find_by_text(const char* name, const char* overload, StringTable& table,
                                           const StringEntry*& known) noexcept {
  const Name text{.name = {name, ::strnlen(name, kMaxNameBytes)},
                  .overload = {overload, ::strnlen(overload, kMaxNameBytes)}};
  const std::uint64_t hash = text.hash();
  if (text_capacity_ != 0) {
    const std::size_t mask = text_capacity_ - 1;
    for (std::size_t i = hash & mask; by_text_[i].entry != nullptr; i = (i + 1) & mask) {
      if (by_text_[i].hash == hash && equals(*by_text_[i].entry, text)) {
        known = by_text_[i].entry;
        return *known;
      }
    }
  }
  const StringEntry& entry = table.intern(text, hash);
  if (!StringTable::is_placeholder(entry)) {
    remember(hash, entry);
    known = &entry;
  }
  return entry;
}

void NameCache::remember(std::uint64_t hash, const StringEntry& entry) noexcept {
  if (2 * (text_count_ + 1) > text_capacity_ && !resize(std::max(2 * text_capacity_, kFirstTextEntries))) {
    return;
  }
  const std::size_t mask = text_capacity_ - 1;
  std::size_t i = hash & mask;
  while (by_text_[i].entry != nullptr) {
    i = (i + 1) & mask;
  }
  by_text_[i] = {.hash = hash, .entry = &entry};
  ++text_count_;
}

bool NameCache::resize(std::size_t capacity) noexcept {
  if (capacity > kMaxTextEntries) {
    // Names that never come back would fill any table: start over.
    std::fill_n(by_text_.get(), text_capacity_, TextEntry{});
    text_count_ = 0;
    return true;
  }
  std::unique_ptr<TextEntry[]> old(new (std::nothrow) TextEntry[capacity]());
  if (!old) {
    return false;
  }
  old.swap(by_text_);
  const std::size_t old_capacity = text_capacity_;
  text_capacity_ = capacity;
  text_count_ = 0;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].entry != nullptr) {
      remember(old[i].hash, *old[i].entry);
    }
  }
  return true;
}

}  // namespace torchprof
