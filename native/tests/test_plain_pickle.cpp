#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/plain_pickle.h"

using torchprof::why_not_plain_pickle;

namespace {

constexpr std::uint64_t kEnough = std::uint64_t{1} << 30;

std::string verdict(std::string_view pickle, std::uint64_t max_memory_bytes = kEnough) {
  return why_not_plain_pickle({reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()},
                              max_memory_bytes);
}

std::string pickle(std::string_view body) { return "\x80\x04" + std::string(body) + "."; }

}  // namespace

TEST_CASE("plain containers and scalars pass") {
  CHECK(verdict(pickle("N")).empty());
  CHECK(verdict(pickle("}\x94\x8c\x01kK\x01s")).empty());  // {"k": 1}
  CHECK(verdict(pickle("}(\x8c\x01k]\x94(K\x01K\x02"
                       "e"
                       "K\x07N"
                       "u"))
            .empty());  // {"k": [1, 2], 7: None}
  CHECK(verdict(pickle("(K\x01K\x02t")).empty());
  CHECK(verdict("(lp0\nI1\naF1.5\na.").empty());  // protocol 0
}

TEST_CASE("whatever names or calls something does not") {
  const std::string said = "it names a class or a function, which could run code";
  for (const std::string_view opcode :
       {"cos\nsystem\n", "\x8c\x02os\x8c\x06system\x93", "N)R", "N}b", "(ios\nsystem\n", "(No", "N)\x81",
        "N)}\x92", "Pid\n", "NQ", "\x82\x01", "\x97", "\x8f", "\x96"}) {
    CHECK(verdict(pickle(opcode)) == said);
  }
}

TEST_CASE("a large place in the table of shared objects is refused") {
  CHECK(verdict(pickle(std::string_view("]r\xff\xff\xff\x7f", 6))) == "it is damaged");
  CHECK(verdict(pickle("]p99999999999\n")) == "it is damaged");
  CHECK(verdict(pickle("]q\x05h\x05"
                       "0"))
            .empty());
  CHECK(verdict(pickle("h\x05")) == "it is damaged");
}

TEST_CASE("keys are text or small integers") {
  const std::string said = "a dictionary in it has keys that are neither text nor small integers";
  CHECK(verdict(pickle("})K\x01s")) == said);
  CHECK(verdict(pickle("}(\x8a\x08"
                       "12345678K\x01u")) == said);
  CHECK(verdict(pickle("(G12345678K\x01"
                       "d")) == said);
}

TEST_CASE("containers are filled as what they are") {
  for (const std::string_view body : {"}K\x01"
                                      "a",
                                      "]\x8c\x01kNs",
                                      "(K\x01"
                                      "u",
                                      "e", "a", "0", "1", "K\x01K\x02"}) {
    CHECK(verdict(pickle(body)) == "it is damaged");
  }
}

TEST_CASE("what is cut off is said to be") {
  const std::string whole = pickle(
      "}\x94\x8c\x03"
      "abcG12345678s");
  CHECK(verdict(whole).empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(verdict(std::string_view(whole).substr(0, size)) == "it ends before its end mark");
  }
  CHECK(verdict(pickle(std::string_view("X\xff\xff\xff\xff", 5))) == "it ends before its end mark");
}

TEST_CASE("memory is bounded before any of it is taken") {
  const std::string said = "it would need more memory than an import may take";
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "}0";
  CHECK(verdict(pickle(many + "N")).empty());
  CHECK(verdict(pickle(many + "N"), 1000) == said);
}

TEST_CASE("numbers that take long to read are refused") {
  CHECK(verdict(pickle("I" + std::string(2000, '1') + "\n")) == "it is damaged");
  CHECK(verdict(pickle("\x8b" + std::string("\x00\x10\x00\x00", 4) + std::string(4096, '\1'))) ==
        "it is damaged");
}
