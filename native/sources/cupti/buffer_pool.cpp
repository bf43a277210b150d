#include "sources/cupti/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace torchprof::cupti {
namespace {

constexpr std::size_t kAlignBytes = 8;  // as CUPTI asks for

}  // namespace

void BufferPool::open(std::size_t max_bytes, bool may_refuse) noexcept {
  const std::lock_guard lock(mutex_);
  max_bytes_ = std::max(max_bytes, kBufferBytes);
  may_refuse_ = may_refuse;
  open_ = true;
  interrupted_ = false;
}

void BufferPool::close() noexcept {
  const std::lock_guard lock(mutex_);
  open_ = false;
  for (const FilledBuffer& buffer : filled_) {
    keep_or_free(buffer.data);
  }
  filled_.clear();
  for (std::uint8_t* data : free_) {
    keep_or_free(data);
  }
  free_.clear();
}

std::uint8_t* BufferPool::allocate() noexcept {
  auto* const data = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignBytes, kBufferBytes));
  if (data != nullptr) {
    allocated_bytes_ += kBufferBytes;
  }
  return data;
}

void BufferPool::keep_or_free(std::uint8_t* data) noexcept {
  if (open_ && allocated_bytes_ <= max_bytes_ && keep(data)) {
    return;
  }
  std::free(data);
  allocated_bytes_ -= kBufferBytes;
}

bool BufferPool::keep(std::uint8_t* data) noexcept {
  try {
    free_.push_back(data);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

BufferPool::Taken BufferPool::take() noexcept {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    std::uint8_t* const data = free_.back();
    free_.pop_back();
    return {.data = data};
  }
  if (allocated_bytes_ + kBufferBytes <= max_bytes_) {
    return {.data = allocate()};
  }
  if (may_refuse_) {
    return {};
  }
  if (!filled_.empty()) {
    const FilledBuffer oldest = filled_.front();
    filled_.pop_front();
    return {.data = oldest.data, .unread = oldest};
  }
  return {.data = allocate()};
}

void BufferPool::put(const FilledBuffer& buffer) noexcept {
  const std::lock_guard lock(mutex_);
  if (!open_) {
    keep_or_free(buffer.data);
    return;
  }
  try {
    filled_.push_back(buffer);
  } catch (const std::bad_alloc&) {
    keep_or_free(buffer.data);
    return;
  }
  filled_signal_.notify_one();
}

std::optional<FilledBuffer> BufferPool::next() {
  std::unique_lock lock(mutex_);
  filled_signal_.wait(lock, [this]() noexcept { return !filled_.empty() || interrupted_; });
  if (filled_.empty()) {
    return std::nullopt;
  }
  const FilledBuffer buffer = filled_.front();
  filled_.pop_front();
  ++reading_;
  return buffer;
}

void BufferPool::read(const FilledBuffer& buffer) noexcept {
  const std::lock_guard lock(mutex_);
  keep_or_free(buffer.data);
  --reading_;
  if (filled_.empty() && reading_ == 0) {
    read_signal_.notify_all();
  }
}

void BufferPool::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  filled_signal_.notify_all();
}

bool BufferPool::wait_until_read(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return read_signal_.wait_for(lock, timeout, [this]() noexcept { return filled_.empty() && reading_ == 0; });
}

}  // namespace torchprof::cupti
