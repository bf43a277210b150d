#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_scanner.h"

using namespace torchprof;

namespace {

struct Scanned {
  bool is_sound;
  JsonFault fault;
  JsonValue value;
};

Scanned scan(std::string_view text) {
  JsonScanner scanner(text);
  JsonValue value;
  const bool is_sound = scanner.value(value);
  return {is_sound, scanner.fault(), value};
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("values are what RFC 8259 says") {
  const std::vector<std::pair<std::string_view, JsonKind>> sound = {
      {"null", JsonKind::kNull},
      {"true", JsonKind::kTrue},
      {"false", JsonKind::kFalse},
      {"0", JsonKind::kInteger},
      {"-0", JsonKind::kInteger},
      {"-12", JsonKind::kInteger},
      {"1.50", JsonKind::kReal},
      {"1e5", JsonKind::kReal},
      {"2E-7", JsonKind::kReal},
      {R"("a\"\\\/\b\f\n\r\t")", JsonKind::kString},
      {R"("\u00e9\ud83d\ude00")", JsonKind::kString},
      {"\"\xC3\xA9\x7F\"", JsonKind::kString},
      {"[]", JsonKind::kArray},
      {"[1, [2], {}]", JsonKind::kArray},
      {"{}", JsonKind::kObject},
      {R"({"a": [1, {"b": null}], "c": "]"})", JsonKind::kObject}};
  for (const auto& [text, kind] : sound) {
    CAPTURE(text);
    const std::string padded = " " + std::string(text) + " ";
    const Scanned scanned = scan(padded);
    CHECK(scanned.is_sound);
    CHECK(scanned.value.kind == kind);
    CHECK(scanned.value.text == text);
  }
}

TEST_CASE("anything else is malformed") {
  for (const std::string_view text : {"01 ",
                                      "1. ",
                                      ".5 ",
                                      "-x ",
                                      "1e ",
                                      "+1 ",
                                      "nul ",
                                      "NaN ",
                                      "Infinity ",
                                      "inf ",
                                      "tru] ",
                                      "'a' ",
                                      "} ",
                                      "[1,] ",
                                      "[,1] ",
                                      "[1 2] ",
                                      "[1} ",
                                      R"({"a":1,} )",
                                      R"({"a" 1} )",
                                      R"({a:1} )",
                                      R"({"a":1 "b":2} )",
                                      R"({1:2} )",
                                      "\"a\nb\"",
                                      "\"\x01\"",
                                      R"("\q")",
                                      R"("\u12g4")",
                                      R"("\ud800")",
                                      R"("\udc00")",
                                      R"("\ud800\u0041")",
                                      R"("\ud800x")"}) {
    CAPTURE(text);
    const Scanned scanned = scan(text);
    CHECK_FALSE(scanned.is_sound);
    CHECK(scanned.fault == JsonFault::kMalformed);
  }
}

TEST_CASE("a text that ends anywhere is cut off, never malformed") {
  const std::string text =
      "{\"a\": [1.5e-3, -20, true, null, \"\\u00e9\\ud83d\\ude00\\n \xE2\x9C\x93\"], \"b\": {\"c\": {}}}";
  REQUIRE(scan(text).is_sound);
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    const Scanned scanned = scan(std::string_view(text).substr(0, size));
    CHECK_FALSE(scanned.is_sound);
    CHECK(scanned.fault == JsonFault::kCutOff);
  }
}

TEST_CASE("a string ends at its quote wherever that lies in a word") {
  for (std::size_t before = 0; before < 40; ++before) {
    for (const std::string_view special : {"", "\\\"", "\\\\", "\xC3\xA9", "\xE2\x9C\x93", "\x7F"}) {
      CAPTURE(before);
      CAPTURE(special);
      const std::string quoted = "\"" + std::string(before, 'x') + std::string(special) + "yy\"";
      const std::string text = quoted + std::string(20, '"');
      CHECK(scan(text).value.text == quoted);
    }
    std::string control = "\"" + std::string(before, 'x') + "\x1F" + std::string(20, 'y') + "\"";
    CHECK(scan(control).fault == JsonFault::kMalformed);
  }
}

TEST_CASE("nesting has a bound") {
  CHECK(scan(nested(kMaxJsonDepth)).is_sound);
  CHECK(scan(nested(kMaxJsonDepth + 1)).fault == JsonFault::kMalformed);
  CHECK(scan(std::string(1'000'000, '[')).fault == JsonFault::kMalformed);
}

TEST_CASE("what other readers may refuse is not portable") {
  const std::string digits(kMaxJsonNumberBytes, '7');
  for (const std::string& text : std::initializer_list<std::string>{
           "[\"\xFF\"]", "[\"\xC3\"]", "[\"\xED\xA0\x80\"]", "[1" + digits + "]"}) {
    JsonScanner scanner(text);
    JsonValue value;
    CHECK(scanner.value(value));
    CHECK_FALSE(scanner.is_portable());
  }
  const std::string longest = "[" + digits + "]";
  JsonScanner scanner(longest);
  JsonValue value;
  CHECK(scanner.value(value));
  CHECK(scanner.is_portable());
}

TEST_CASE("members and items are visited in order") {
  JsonScanner scanner(R"( {"a" : [1, "x"], "b":{} } )");
  std::string seen;
  const bool is_sound = scanner.members([&](const JsonValue& key) {
    seen.append(key.inside()).append("=");
    JsonValue value;
    if (scanner.peek() != '[') {
      const bool is_there = scanner.value(value);
      seen.append(value.text).append(";");
      return is_there;
    }
    return scanner.items([&] {
      const bool is_there = scanner.value(value);
      seen.append(value.text).append(";");
      return is_there;
    });
  });
  CHECK(is_sound);
  CHECK(seen == R"(a=1;"x";b={};)");
  CHECK(scanner.peek() == -1);
}

TEST_CASE("one object and nothing else") {
  CHECK(is_json_object(R"( {"a": 1} )"));
  for (const std::string_view text : {"", "{", "[]", "1", "{} {}", R"({"a":"\x"})", "{\"a\":\"\xFF\"}"}) {
    CHECK_FALSE(is_json_object(text));
  }
}
