#include <doctest/doctest.h>

#include <vector>

#include "core/capture.h"
#include "core/reader.h"

using namespace torchprof;

namespace {

TensorRoleRecord note(std::uint32_t name, std::uint64_t address) {
  TensorRoleRecord record = {};
  record.address = address;
  record.size_bytes = 512;
  record.name = name;
  record.device = -1;
  record.role = static_cast<std::uint8_t>(TensorRole::kGradient);
  record.owner = 3;
  return record;
}

}  // namespace

TEST_CASE("roles of one note share its time, and come back with their names") {
  Capture capture("", std::uint64_t{1} << 24);
  capture.start();
  const std::uint32_t name = capture.intern("encoder.weight", "exp_avg");
  CHECK(capture.intern("encoder.weight", "exp_avg") == name);
  const std::vector<TensorRoleRecord> notes = {note(name, 0x1000), note(name, 0x2000)};
  capture.add_tensor_roles(notes);
  capture.add_tensor_roles(std::vector{note(name, 0x1000)});
  capture.stop();
  const Recording recording = read_recording(capture.bytes(), capture.owner(), {});
  REQUIRE(recording.tensor_roles.size() == 3);
  const TensorRoleRecord& first = recording.tensor_roles[0];
  CHECK(first.time == recording.tensor_roles[1].time);
  CHECK(first.time <= recording.tensor_roles[2].time);
  CHECK(static_cast<std::int64_t>(first.time) >= recording.start_ns);
  CHECK(static_cast<std::int64_t>(first.time) <= recording.end_ns);
  CHECK(first.owner == 3);
  CHECK(recording.strings.name(first.name) == "encoder.weight");
  CHECK(recording.strings.overload(first.name) == "exp_avg");
  CHECK(recording.problems.empty());
}

TEST_CASE("nothing is noted outside of a capture") {
  Capture capture("", std::uint64_t{1} << 24);
  CHECK(capture.intern("weight", "") == 0);
  capture.add_tensor_roles(std::vector{note(0, 0x1000)});
  capture.start();
  capture.stop();
  capture.add_tensor_roles(std::vector{note(0, 0x1000)});
  CHECK(read_recording(capture.bytes(), capture.owner(), {}).tensor_roles.empty());
}

TEST_CASE("notes that find no room are counted") {
  Capture capture("", std::uint64_t{1} << 20);
  capture.start();
  const std::vector<TensorRoleRecord> notes(100000, note(0, 0x1000));
  capture.add_tensor_roles(notes);
  capture.stop();
  const Recording recording = read_recording(capture.bytes(), capture.owner(), {});
  CHECK(recording.tensor_roles.size() < notes.size());
  CHECK(capture.drops()[static_cast<std::size_t>(DropReason::kByteCap)] > 0);
}
