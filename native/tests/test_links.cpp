#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "core/links.h"

using namespace torchprof;

namespace {

class LinkScene {
 public:
  std::uint32_t thread(std::uint64_t torch_thread_id, std::int64_t process_id = 1) {
    return builder.add_track({.kind = TrackKind::kThread,
                              .process_id = process_id,
                              .thread_id = 0,
                              .torch_thread_id = torch_thread_id,
                              .device = -1,
                              .context = -1,
                              .name = {}});
  }
  void forward(std::uint32_t track, std::int64_t start_ns, std::int64_t end_ns, std::int64_t sequence) {
    builder.add_event({.start_ns = start_ns, .end_ns = end_ns, .track = track, .sequence = sequence});
  }
  void backward(std::uint32_t track, std::int64_t start_ns, std::int64_t sequence,
                std::uint32_t forward_thread) {
    builder.add_event({.start_ns = start_ns,
                       .end_ns = start_ns + 1,
                       .track = track,
                       .sequence = sequence,
                       .forward_thread = forward_thread});
  }

  RecordingBuilder builder;
};

using Rows = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a backward op is linked to the innermost op with its number") {
  LinkScene scene;
  const std::uint32_t main = scene.thread(1);
  const std::uint32_t autograd = scene.thread(2);
  scene.forward(main, 0, 100, 5);    // row 0, aten::linear
  scene.forward(main, 10, 90, 5);    // row 1, aten::addmm, which made the node
  scene.forward(main, 100, 200, 6);  // row 2
  scene.backward(autograd, 300, 5, 1);
  scene.backward(autograd, 310, 6, 1);
  const LinkTable links = forward_backward_links(scene.builder.finish());
  CHECK(links.from == Rows{3, 4});
  CHECK(links.to == Rows{1, 2});
  CHECK(links.type == std::vector<std::uint32_t>{1, 1});
}

TEST_CASE("the same number on another thread or process is another node") {
  LinkScene scene;
  const std::uint32_t first = scene.thread(1);
  const std::uint32_t second = scene.thread(2);
  const std::uint32_t stranger = scene.thread(1, 99);
  scene.forward(first, 0, 10, 5);
  scene.forward(second, 0, 10, 5);
  scene.forward(stranger, 0, 10, 5);
  scene.backward(first, 20, 5, 2);
  const LinkTable links = forward_backward_links(scene.builder.finish());
  CHECK(links.from == Rows{1});
  CHECK(links.to == Rows{2});
}

TEST_CASE("double backward: a backward op never is the forward op") {
  LinkScene scene;
  const std::uint32_t main = scene.thread(1);
  scene.forward(main, 0, 10, 5);   // row 0
  scene.backward(main, 20, 5, 1);  // row 1
  scene.forward(main, 20, 21, 8);  // row 2 makes the node of the second backward
  scene.backward(main, 40, 8, 1);  // row 3
  scene.backward(main, 50, 5, 1);  // row 4
  const LinkTable links = forward_backward_links(scene.builder.finish());
  CHECK(links.from == Rows{1, 3, 4});
  CHECK(links.to == Rows{0, 2, 0});
}

TEST_CASE("what was not recorded is not linked") {
  LinkScene scene;
  const std::uint32_t main = scene.thread(1);
  scene.forward(main, 0, 10, 5);
  scene.forward(main, 10, 20, -1);
  scene.backward(main, 20, 4, 1);   // no such number
  scene.backward(main, 30, 5, 7);   // no such thread
  scene.backward(main, 40, -1, 1);  // no number
  CHECK(forward_backward_links(scene.builder.finish()).from.empty());
}
