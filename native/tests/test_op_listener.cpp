// Someone who is told of ops by way of a slot, beside captures in the others.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/op_listener.h"
#include "core/registry.h"
#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

namespace {

class Transcript final : public OpListener {
 public:
  void started(const torchprof_op_start& op) noexcept override { heard.append("<").append(op.name); }
  void ended(const void*) noexcept override { heard += ">"; }

  std::string heard;
};

}  // namespace

TEST_CASE("a listener is told of the ops of its slot from when it listens until it does not") {
  Transcript transcript;
  const int claimed = Registry::instance().listen(transcript);
  REQUIRE(claimed >= 0);
  const auto slot = static_cast<std::uint32_t>(claimed);
  CHECK(core_table().slot_active(slot) == 1);
  FakeOp outer;
  outer.start(slot, "outer");
  record_op(slot, "inner");
  outer.end(slot);
  FakeOp late;
  late.start(slot, "late");
  Registry::instance().stop_listening(slot);
  late.end(slot);
  record_op(slot, "after");
  CHECK(core_table().slot_active(slot) == 0);
  CHECK(transcript.heard == "<outer<inner>><late");
}

TEST_CASE("a slot has a listener or a recording") {
  Transcript transcript;
  const int claimed = Registry::instance().listen(transcript);
  REQUIRE(claimed >= 0);
  std::vector<std::unique_ptr<Capture>> captures;
  for (std::uint32_t i = 1; i < kSlots; ++i) {
    captures.push_back(std::make_unique<Capture>("", kSmallCapBytes));
    CHECK(captures.back()->start() != claimed);
  }
  Capture one_too_many("", kSmallCapBytes);
  CHECK_THROWS(one_too_many.start());
  Transcript another;
  CHECK(Registry::instance().listen(another) == -1);

  record_op(static_cast<std::uint32_t>(captures[0]->slot()), "recorded");
  record_op(static_cast<std::uint32_t>(claimed), "heard");
  CHECK(transcript.heard == "<heard>");
  CHECK(captures[0]->recorded() == 1);
  Registry::instance().stop_listening(static_cast<std::uint32_t>(claimed));
  CHECK(one_too_many.start() == claimed);
}
