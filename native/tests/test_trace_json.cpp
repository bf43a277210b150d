#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace_json/intern_table.h"
#include "trace_json/numbers.h"
#include "trace_json/trace_scanner.h"

using namespace torchprof;

namespace {

const CategoryClasses kClasses = {{"kernel", CategoryClass::kDevice},
                                  {"cuda_runtime", CategoryClass::kCall},
                                  {"cuda_profiler_range", CategoryClass::kCounters}};

// Every common shape, and beside them a metadata event and one of an unusual shape.
const std::string kEvents[] = {
    (R"({"ph":"X","cat":"cpu_op","name":"aten::\u00e9","pid":1,"tid":2,"ts":5.001,"dur":2.5,)"
     R"("args":{"External id":9,"Sequence number":3,"Fwd thread id":1,"Ev Idx":4,"Input Dims":[[2]],)"
     R"("Call stack":"a;b","nested":{"x":[1, 2]}}})"),
    (R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":6,"dur":1,)"
     R"("args":{"cbid":211,"correlation":7,"stream":"0x0"}})"),
    (R"({"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":8,"dur":1,"args":{"correlation":7,)"
     R"("device":0,"stream":4294967295,"grid":[2,3,4],"blocks per SM":0.5,"shared memory":null}})"),
    R"({"ph":"s","cat":"ac2g","name":"ac2g","id":7,"pid":1,"tid":2,"ts":6})",
    R"({"ph":"f","cat":"ac2g","name":"ac2g","id":7,"pid":0,"tid":7,"ts":8,"bp":"e"})",
    (R"({"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":2,"ts":9,)"
     R"("args":{"Bytes":-64,"Addr":4096,"Device Type":1,"Device Id":0,"Total Allocated":128}})"),
    R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}})",
    R"({"ph":"X","cat":"Kernel","name":"odd","pid":0,"tid":7,"ts":"9","dur":1})"};

std::string document(std::size_t events = std::size(kEvents)) {
  std::string text = "\xEF\xBB\xBF{\n\"schemaVersion\": 1, \"other\": [1, {}],\n\"traceEvents\": [";
  for (std::size_t index = 0; index < events; ++index)
    text.append(index == 0 ? "" : ",\n ").append(kEvents[index]);
  return text + " ],\n \"baseTimeNanoseconds\": 1000}\n";
}

TraceScanner scanner() { return {kClasses, {"schemaVersion", "baseTimeNanoseconds"}}; }

TraceScanner scan(std::string_view text) {
  TraceScanner scanning = scanner();
  scanning.feed(text);
  scanning.finish();
  return scanning;
}

std::size_t events_in(const EventBlock& block) {
  return block.complete.start_ns.size() + block.flows.id.size() + block.memory.size() +
         block.other_ends.size();
}

std::string name_at(TraceScanner& scanning, const EventBlock& block, std::size_t row) {
  const std::string_view joined = scanning.collector().texts().names.text(block.complete.name[row]);
  return std::string(JoinedTexts::split(joined)[0]);
}

JsonValue value_of(std::string_view text, JsonKind kind) { return {.text = text, .kind = kind}; }

}  // namespace

TEST_CASE("events become columns, and what is beside them is kept") {
  TraceScanner scanning = scan(document());
  CHECK(scanning.state() == TraceState::kWhole);
  CHECK(scanning.has_events());
  CHECK(scanning.header().at("schemaVersion") == "1");
  CHECK(scanning.header().at("baseTimeNanoseconds") == "1000");
  CHECK_FALSE(scanning.header().contains("other"));

  const EventBlock block = scanning.collector().take();
  const CompleteColumns& complete = block.complete;
  CHECK(complete.start_ns == std::vector<std::int64_t>{5001, 6000, 8000});
  CHECK(complete.duration_ns == std::vector<std::int64_t>{2500, 1000, 1000});
  CHECK(name_at(scanning, block, 0) == R"("aten::\u00e9")");
  CHECK(complete.sequence == std::vector<std::int64_t>{3, -1, -1});
  CHECK(complete.forward_thread == std::vector<std::uint32_t>{1, 0, 0});
  CHECK(complete.correlation == std::vector<std::int64_t>{-1, 7, 7});
  CHECK(complete.external_id == std::vector<std::int64_t>{9, -1, -1});
  CHECK(complete.inputs == std::vector<std::uint32_t>{0, kNoText, kNoText});
  CHECK(complete.place == std::vector<std::uint32_t>{0, 0, 1});

  REQUIRE(block.devices.size() == 2);
  CHECK(block.devices[0].event == 1);
  CHECK(block.devices[0].callback_id == 211);
  const DeviceRecord& kernel = block.devices[1];
  CHECK(kernel.event == 2);
  CHECK(kernel.device == 0);
  CHECK(kernel.stream == -1);
  CHECK(kernel.grid[2] == 4);
  CHECK(kernel.blocks_per_sm == 0.5f);
  CHECK(kernel.shared_bytes == -1);
  CHECK(std::isnan(kernel.warps_per_sm));

  REQUIRE(block.arguments.size() == 2);
  const InternTable& texts = scanning.collector().texts().arguments;
  CHECK(texts.text(block.arguments[0].text) == R"({"Call stack":"a;b","nested":{"x":[1, 2]}})");
  CHECK(texts.text(block.arguments[1].text) == R"({"stream":"0x0"})");

  CHECK(block.flows.is_start == std::vector<std::uint8_t>{1, 0});
  CHECK(block.flows.id == std::vector<std::int64_t>{7, 7});
  REQUIRE(block.memory.size() == 1);
  CHECK(block.memory[0].size_bytes == -64);
  CHECK(block.memory[0].total_reserved_bytes == -1);
  CHECK(block.other_text == kEvents[6] + kEvents[7]);
}

TEST_CASE("pieces of any size give the same") {
  const std::string text = document();
  for (const std::size_t piece_bytes : {1, 2, 7, 64, 500}) {
    TraceScanner scanning = scanner();
    for (std::size_t begin = 0; begin < text.size(); begin += piece_bytes) {
      scanning.feed(std::string_view(text).substr(begin, piece_bytes));
    }
    scanning.finish();
    CHECK(scanning.state() == TraceState::kWhole);
    const EventBlock block = scanning.collector().take();
    CHECK(block.complete.start_ns == std::vector<std::int64_t>{5001, 6000, 8000});
    CHECK(block.other_text == kEvents[6] + kEvents[7]);
    CHECK(events_in(block) == std::size(kEvents));
  }
}

TEST_CASE("a trace that ends anywhere yields the events before its end") {
  const std::string text = document();
  const std::size_t array_begin = text.find('[', text.find("traceEvents")) + 1;
  const std::size_t array_end = text.rfind(']');
  const std::size_t mark_bytes = 3;  // a part of it is no JSON
  for (std::size_t size = mark_bytes; size < text.size(); ++size) {
    CAPTURE(size);
    TraceScanner scanning = scan(std::string_view(text).substr(0, size));
    CHECK(scanning.state() == (size > text.rfind('}') ? TraceState::kWhole : TraceState::kReading));
    CHECK(scanning.is_among_events() == (size >= array_begin && size <= array_end));
    std::size_t whole = 0;
    for (std::size_t end = array_begin; const std::string& event : kEvents) {
      end = text.find(event, end) + event.size();
      whole += end <= size ? 1 : 0;
    }
    CHECK(events_in(scanning.collector().take()) == whole);
  }
}

TEST_CASE("no other document is a trace") {
  for (const std::string_view text :
       {"1", "\"a\"", "[1,]", "[{}] x", "{\"traceEvents\":1}", "{\"traceEvents\":null}", "{\"a\":1,}", "{,}",
        "[{\"ts\":NaN}]", "{\"traceEvents\":[{}]]", "[{\"a\":\"\x01\"}]"}) {
    CAPTURE(text);
    CHECK(scan(text).state() == TraceState::kMalformed);
  }
}

TEST_CASE("of two arrays of events the last counts") {
  const std::string text =
      "{\"traceEvents\":[" + kEvents[0] + "],\"traceEvents\":[" + kEvents[3] + "," + kEvents[4] + "]}";
  TraceScanner scanning = scan(text);
  CHECK(scanning.arrays_begun() == 2);
  CHECK(events_in(scanning.collector().take()) == 2);
}

TEST_CASE("shapes that are not common stay text") {
  for (const std::string_view event :
       {R"({"ph":"X","name":"a","pid":1.5,"tid":1,"ts":1,"dur":1})",
        R"({"ph":"X","name":["a"],"pid":1,"tid":1,"ts":1,"dur":1})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1e3,"dur":1})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"dur":1})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":[1]})",
        R"({"ph":"X","cat":"k\u0065rnel","name":"a","pid":1,"tid":1,"ts":1,"dur":1})",
        R"({"ph":"X","cat":"kernel","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"stream":"7"}})",
        R"({"ph":"X","cat":"kernel","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"grid":[1,1]}})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Sequence number":"3"}})",
        R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"c\u006fbid":3}})",
        R"({"ph":"X","cat":"cuda_profiler_range","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":1}})",
        R"({"ph":"s","id":"a","pid":1,"tid":1,"ts":1})",
        R"({"ph":"i","name":"mark","ts":1})",
        R"({"ph":"B"})",
        R"({"ph":null})",
        "{}",
        "7",
        "\"x\"",
        "null",
        "[]"}) {
    CAPTURE(event);
    TraceScanner scanning = scan("[" + std::string(event) + "]");
    CHECK(scanning.state() == TraceState::kWhole);
    CHECK(scanning.collector().take().other_text == event);
  }
}

TEST_CASE("an event of a thing that another reader refuses stays text") {
  TraceScanner scanning = scan("[{\"ph\":\"X\",\"name\":\"\xFF\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}]");
  CHECK(scanning.state() == TraceState::kWhole);
  CHECK(scanning.collector().take().other_ends.size() == 1);
}

TEST_CASE("of members that are there twice the last counts") {
  TraceScanner scanning =
      scan(R"([{"ph":"B","ph":"X","name":"a","name":"b","pid":1,"tid":1,"ts":1,"ts":2,"dur":1,)"
           R"("args":{"correlation":1,"x":1},"args":{"correlation":null}}])");
  const EventBlock block = scanning.collector().take();
  CHECK(block.complete.start_ns == std::vector<std::int64_t>{2000});
  CHECK(block.complete.correlation == std::vector<std::int64_t>{-1});
  CHECK(block.arguments.empty());
  CHECK(name_at(scanning, block, 0) == "\"b\"");
}

TEST_CASE("arguments that are too long are counted") {
  const std::string stack(kMaxArgumentsBytes, 'x');
  TraceScanner scanning =
      scan(R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"s":")" + stack + R"("}}])");
  const EventBlock block = scanning.collector().take();
  CHECK(block.complete.start_ns.size() == 1);
  CHECK(block.arguments.empty());
  CHECK(block.arguments_left_out == 1);
}

TEST_CASE("microseconds are exact") {
  const auto ns = [](std::string_view text) {
    const bool is_real = text.find('.') != std::string_view::npos;
    return microseconds(value_of(text, is_real ? JsonKind::kReal : JsonKind::kInteger));
  };
  CHECK(ns("1623142623460111") == 1623142623460111000);
  CHECK(ns("-0.001") == -1);
  CHECK(ns("1.5") == 1500);
  CHECK(ns("0.0004") == 0);
  CHECK(ns("0.0005") == 0);
  CHECK(ns("0.0015") == 2);
  CHECK(ns("0.00050000001") == 1);
  CHECK(ns("4611686018427386") == 4611686018427386000);
  CHECK_FALSE(ns("4611686018427387"));
  CHECK_FALSE(ns("99999999999999999999"));
  CHECK_FALSE(ns("1e3"));
  CHECK_FALSE(microseconds(value_of("\"1\"", JsonKind::kString)));
}

TEST_CASE("texts have one number each") {
  InternTable table;
  std::set<std::uint32_t> numbers;
  for (int round = 0; round < 2; ++round) {
    for (int index = 0; index < 5000; ++index) {
      numbers.insert(
          table.intern(std::string(static_cast<std::size_t>(index % 97), 'x') + std::to_string(index)));
    }
  }
  CHECK(numbers.size() == 5000);
  CHECK(table.size() == 5000);
  CHECK(table.text(3) == "xxx3");
}

TEST_CASE("joined texts do not run into each other") {
  JoinedTexts one;
  one.add("ab");
  one.add("");
  one.add("c");
  JoinedTexts other;
  other.add("a");
  other.add("b");
  other.add("c");
  CHECK(one.view() != other.view());
  CHECK(JoinedTexts::split(one.view()) == std::vector<std::string_view>{"ab", "", "c"});
}
