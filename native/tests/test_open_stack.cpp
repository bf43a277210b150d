#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/open_stack.h"

using torchprof::kMaxOpenOps;
using torchprof::OpenStack;
using torchprof::OpRecord;

namespace {

bool push(OpenStack& stack, const void* key, OpRecord* record) {
  if (!stack.has_room() && !(stack.make_room() && stack.has_room())) {
    return false;
  }
  stack.push(key, record);
  return true;
}

std::vector<const void*> drained(OpenStack& stack) {
  std::vector<const void*> keys;
  stack.drain([&](const void* key, OpRecord&) noexcept { keys.push_back(key); });
  return keys;
}

struct Ops {
  explicit Ops(std::size_t count) : keys(count), records(std::make_unique<OpRecord[]>(count)) {}
  std::vector<char> keys;
  std::unique_ptr<OpRecord[]> records;
};

}  // namespace

TEST_CASE("ops end in reverse order of their beginning, over segments") {
  constexpr std::size_t kCount = 1'000;
  Ops ops(kCount);
  OpenStack stack;
  for (std::size_t i = 0; i < kCount; ++i) {
    REQUIRE(push(stack, &ops.keys[i], &ops.records[i]));
  }
  for (std::size_t i = kCount; i-- > 0;) {
    OpRecord* record = stack.pop(&ops.keys[i]);
    if (record == nullptr) {
      record = stack.take(&ops.keys[i]);
    }
    REQUIRE(record == &ops.records[i]);
  }
  CHECK(drained(stack).empty());
}

TEST_CASE("an op below the top can end first") {
  Ops ops(3);
  OpenStack stack;
  for (std::size_t i = 0; i < 3; ++i) {
    push(stack, &ops.keys[i], &ops.records[i]);
  }
  CHECK(stack.pop(&ops.keys[0]) == nullptr);
  CHECK(stack.take(&ops.keys[0]) == &ops.records[0]);
  CHECK(stack.take(&ops.keys[0]) == nullptr);
  CHECK(stack.pop(&ops.keys[2]) == &ops.records[2]);
  CHECK(stack.pop(&ops.keys[1]) == &ops.records[1]);
  CHECK(drained(stack).empty());
}

TEST_CASE("an address used again means the newer op") {
  Ops ops(2);
  OpenStack stack;
  push(stack, &ops.keys[0], &ops.records[0]);
  CHECK(stack.claim(&ops.keys[0]) == &ops.records[0]);
  push(stack, &ops.keys[0], &ops.records[1]);
  CHECK(stack.pop(&ops.keys[0]) == &ops.records[1]);
}

TEST_CASE("ops claimed by others leave no lasting room taken") {
  constexpr std::size_t kRounds = 300'000;
  Ops ops(2);
  OpenStack stack;
  // One op is always open on top, so the claimed one below it cannot be popped at once.
  push(stack, &ops.keys[0], &ops.records[0]);
  for (std::size_t i = 1; i < kRounds; ++i) {
    REQUIRE(push(stack, &ops.keys[i % 2], &ops.records[i % 2]));
    REQUIRE(stack.claim(&ops.keys[(i + 1) % 2]) == &ops.records[(i + 1) % 2]);
  }
  CHECK(drained(stack) == std::vector<const void*>{&ops.keys[(kRounds - 1) % 2]});
}

TEST_CASE("the stack holds kMaxOpenOps and no more, and works again afterwards") {
  Ops ops(kMaxOpenOps + 1);
  OpenStack stack;
  for (std::size_t i = 0; i < kMaxOpenOps; ++i) {
    REQUIRE(push(stack, &ops.keys[i], &ops.records[i]));
  }
  CHECK_FALSE(push(stack, &ops.keys[kMaxOpenOps], &ops.records[kMaxOpenOps]));
  CHECK(stack.claim(&ops.keys[5]) == &ops.records[5]);
  CHECK(push(stack, &ops.keys[kMaxOpenOps], &ops.records[kMaxOpenOps]));
  CHECK(drained(stack).size() == kMaxOpenOps);
  CHECK(push(stack, &ops.keys[0], &ops.records[0]));
  CHECK(stack.pop(&ops.keys[0]) == &ops.records[0]);
}
