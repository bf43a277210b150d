#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fake_torch.h"

using namespace torchprof;           // NOLINT(google-build-using-namespace)
using namespace torchprof::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("one pointer may carry many names") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  std::string name(16, '\0');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) {
      std::snprintf(name.data(), name.size(), "step %d", i);
      record_op(slot, name.c_str());
    }
  }
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 300);
  for (std::size_t row = 0; row < 300; ++row) {
    REQUIRE(name_of(recording, row) == "step " + std::to_string(row % 100));
  }
  CHECK(all_drops(capture) == 0);
}

TEST_CASE("a name that is the beginning of another is another name") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  char name[8] = "add_";
  record_op(slot, name);
  std::strcpy(name, "add");
  record_op(slot, name);
  std::strcpy(name, "add_");
  record_op(slot, name);
  record_op(slot, "");
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 4);
  CHECK(name_of(recording, 0) == "add_");
  CHECK(name_of(recording, 1) == "add");
  CHECK(name_of(recording, 2) == "add_");
  CHECK(name_of(recording, 3).empty());
}

TEST_CASE("an operator's overload is part of its name and kept apart") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  for (const char* overload : {"Tensor", "Scalar", "", "Tensor"}) {
    FakeOp op;
    op.start(slot, "aten::add", overload);
    op.end(slot);
  }
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 4);
  CHECK(count_named(recording, "aten::add") == 4);
  CHECK(recording.events.name[0] == recording.events.name[3]);
  CHECK(recording.events.name[0] != recording.events.name[1]);
  CHECK(recording.strings.overload(recording.events.name[1]) == "Scalar");
  CHECK(recording.strings.overload(recording.events.name[2]).empty());
}

TEST_CASE("names are bytes: quotes, control characters, broken UTF-8, 64 KiB") {
  Capture capture("", kSmallCapBytes);
  const std::uint32_t slot = start(capture);
  const std::vector<std::string> names{"a\"b\\c", "tab\tnewline\n", "\xff\xfe bad", "\xe2\x82\xac",
                                       std::string(70'000, 'x')};
  for (const std::string& name : names) {
    record_op(slot, name.c_str());
    record_op(slot, name.c_str());
  }
  capture.stop();
  const Recording recording = read(capture);
  REQUIRE(recording.events.size() == 2 * names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(name_of(recording, 2 * i) == names[i].substr(0, kMaxNameBytes));
    CHECK(recording.events.name[2 * i] == recording.events.name[(2 * i) + 1]);
  }
}

TEST_CASE("more names than the recording has room for: placeholder, counted, ops still recorded") {
  Capture capture("", kMinCapBytes);
  const std::uint32_t slot = start(capture);
  for (int i = 0; i < 2'000; ++i) {
    const std::string name = std::to_string(i) + std::string(500, 'n');
    record_op(slot, name.c_str());
  }
  capture.stop();
  const Recording recording = read(capture);
  const std::size_t placeholders = count_named(recording, "(name table full)");
  CHECK(placeholders > 0);
  CHECK(placeholders == drops(capture, DropReason::kNameTableFull));
  CHECK(recording.events.size() + drops(capture, DropReason::kByteCap) == 2'000);
}
