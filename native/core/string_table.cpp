#include "core/string_table.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace torchprof {
namespace {

constexpr std::size_t kFirstBuckets = 1024;
constexpr std::string_view kPlaceholderName = "(name table full)";
constexpr std::size_t kEntryAlignBytes = 8;

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) noexcept {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  hash = (hash ^ word) * kOdd;
  return hash ^ (hash >> 32U);
}

// Returns the end of the copy. A string_view of nothing may have no address to copy from.
char* copy_bytes(std::string_view bytes, char* to) noexcept {
  return bytes.empty() ? to : std::copy(bytes.begin(), bytes.end(), to);
}

std::uint64_t mix_bytes(std::uint64_t hash, std::string_view bytes) noexcept {
  hash = mix(hash, bytes.size());
  std::uint64_t word = 0;
  while (bytes.size() >= sizeof(word)) {
    std::memcpy(&word, bytes.data(), sizeof(word));
    hash = mix(hash, word);
    bytes.remove_prefix(sizeof(word));
  }
  word = 0;
  copy_bytes(bytes, reinterpret_cast<char*>(&word));
  return mix(hash, word);
}

}  // namespace

std::uint64_t Name::hash() const noexcept { return mix_bytes(mix_bytes(0, name), overload); }

StringTable::StringTable(Arena& arena)
    : arena_(arena), cursor_(ChunkKind::kStrings, 1), buckets_(kFirstBuckets) {
  const Name name{.name = kPlaceholderName, .overload = {}};
  placeholder_ = append(name);
  if (placeholder_ == nullptr) {
    throw std::bad_alloc();
  }
  const std::uint64_t hash = name.hash();
  bucket_for(name, hash) = {.hash = hash, .entry = placeholder_};
}

StringTable::Bucket& StringTable::bucket_for(const Name& name, std::uint64_t hash) noexcept {
  const std::size_t mask = buckets_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Bucket& bucket = buckets_[i];
    if (bucket.entry == nullptr || (bucket.hash == hash && equals(*bucket.entry, name))) {
      return bucket;
    }
  }
}

bool StringTable::grow() noexcept {
  try {
    std::vector<Bucket> old(buckets_.size() * 2);
    old.swap(buckets_);
    const std::size_t mask = buckets_.size() - 1;
    for (const Bucket& bucket : old) {
      if (bucket.entry == nullptr) {
        continue;
      }
      std::size_t i = bucket.hash & mask;
      while (buckets_[i].entry != nullptr) {
        i = (i + 1) & mask;
      }
      buckets_[i] = bucket;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

const StringEntry* StringTable::append(const Name& name) noexcept {
  const std::size_t text_bytes = name.name.size() + name.overload.size();
  const std::size_t size_bytes =
      (sizeof(StringEntry) + text_bytes + kEntryAlignBytes - 1) / kEntryAlignBytes * kEntryAlignBytes;
  std::byte* room = cursor_.reserve(arena_, size_bytes);
  if (room == nullptr) {
    return nullptr;
  }
  auto* entry = new (room) StringEntry{.id = ++count_,
                                       .name_bytes = static_cast<std::uint32_t>(name.name.size()),
                                       .overload_bytes = static_cast<std::uint32_t>(name.overload.size()),
                                       .reserved = 0};
  copy_bytes(name.overload, copy_bytes(name.name, reinterpret_cast<char*>(room + sizeof(StringEntry))));
  cursor_.commit_bytes(size_bytes);
  return entry;
}

const StringEntry& StringTable::intern(const Name& name, std::uint64_t hash) noexcept {
  const std::lock_guard lock(mutex_);
  if (const Bucket& found = bucket_for(name, hash); found.entry != nullptr) {
    return *found.entry;
  }
  if (count_ >= kMaxNames || (2 * (count_ + std::size_t{1}) > buckets_.size() && !grow())) {
    return *placeholder_;
  }
  const StringEntry* added = append(name);
  if (added == nullptr) {
    return *placeholder_;
  }
  bucket_for(name, hash) = {.hash = hash, .entry = added};
  return *added;
}

}  // namespace torchprof
