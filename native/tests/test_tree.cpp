#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "core/tree.h"

using namespace torchprof;

namespace {

class TreeBuilder {
 public:
  TreeBuilder() { track_ = builder_.add_track({}); }
  TreeBuilder& event(std::int64_t start_ns, std::int64_t end_ns, std::uint16_t flags = 0) {
    builder_.add_event({.start_ns = start_ns, .end_ns = end_ns, .track = track_, .flags = flags});
    return *this;
  }
  TreeBuilder& next_track() {
    track_ = builder_.add_track({});
    return *this;
  }
  Tree tree() { return build_tree(builder_.finish()); }

 private:
  RecordingBuilder builder_;
  std::uint32_t track_ = 0;
};

using Rows = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("nested events: parents and self times") {
  const Tree tree =
      TreeBuilder().event(0, 100).event(10, 40).event(15, 20).event(50, 90).event(100, 120).tree();
  CHECK(tree.parent == Rows{-1, 0, 1, 0, -1});
  CHECK(tree.self_ns == Rows{30, 25, 5, 40, 20});
}

TEST_CASE("an event is no child of one that it outlasts") {
  // The second crosses the first; the third lies in both and belongs to the one that began later.
  const Tree tree = TreeBuilder().event(0, 10).event(5, 15).event(6, 8).event(12, 14).tree();
  CHECK(tree.parent == Rows{-1, -1, 1, 1});
  CHECK(tree.self_ns == Rows{10, 6, 2, 2});
}

TEST_CASE("children that cross each other take their union from the parent") {
  const Tree tree = TreeBuilder().event(0, 100).event(10, 40).event(30, 60).tree();
  CHECK(tree.parent == Rows{-1, 0, 0});
  CHECK(tree.self_ns == Rows{50, 30, 30});
}

TEST_CASE("async events have parents but no children, and take no self time") {
  for (const std::uint16_t flag : {kFlagAsync, kFlagOtherThread}) {
    const Tree tree = TreeBuilder().event(0, 100).event(10, 90, flag).event(20, 30).tree();
    CHECK(tree.parent == Rows{-1, 0, 0});
    CHECK(tree.self_ns == Rows{90, 80, 10});
  }
}

TEST_CASE("an async event that outlasts the innermost event belongs to an outer one") {
  const Tree tree = TreeBuilder().event(0, 100).event(10, 50).event(20, 70, kFlagAsync).event(30, 40).tree();
  CHECK(tree.parent == Rows{-1, 0, 0, 1});
}

TEST_CASE("tracks do not touch") {
  const Tree tree = TreeBuilder().event(0, 100).next_track().event(10, 20).tree();
  CHECK(tree.parent == Rows{-1, -1});
}

TEST_CASE("events with the same times nest in order of recording") {
  const Tree tree = TreeBuilder().event(5, 9).event(5, 9).event(5, 9).tree();
  CHECK(tree.parent == Rows{-1, 0, 1});
  CHECK(tree.self_ns == Rows{0, 0, 4});
}

// Each of these would take minutes if anything were looked at twice.
TEST_CASE("large shapes stay linear") {
  constexpr std::int64_t kEvents = 200'000;
  TreeBuilder builder;
  SUBCASE("siblings") {
    builder.event(0, kEvents * 2);
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(i * 2, i * 2 + 1);
    const Tree tree = builder.tree();
    CHECK(tree.parent.back() == 0);
    CHECK(tree.self_ns[0] == kEvents);
  }
  SUBCASE("a deep stack") {
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(i, kEvents * 2 - i);
    const Tree tree = builder.tree();
    CHECK(tree.parent.back() == kEvents - 2);
    CHECK(tree.self_ns[0] == 2);
  }
  SUBCASE("all start together") {
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(0, i);
    const Tree tree = builder.tree();
    CHECK(tree.parent.back() == kEvents - 2);
    CHECK(tree.self_ns[0] == 1);
  }
  SUBCASE("each crosses the one before") {
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(i, i + kEvents);
    const Tree tree = builder.tree();
    CHECK(tree.parent.back() == -1);
  }
  SUBCASE("async ones in a deep stack") {
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(i, kEvents * 3 - i);
    for (std::int64_t i = 0; i < kEvents; ++i) builder.event(kEvents, kEvents * 2 + i, kFlagAsync);
    const Tree tree = builder.tree();
    CHECK(tree.parent.size() == 2 * kEvents);
  }
}
