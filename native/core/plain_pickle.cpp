#include "core/plain_pickle.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace torchprof {
namespace {

enum class Kind : std::uint8_t { kScalar, kSmallInteger, kText, kTuple, kList, kDict };

bool is_key(Kind kind) { return kind == Kind::kText || kind == Kind::kSmallInteger; }

// What objects take in CPython, rounded up.
constexpr std::uint64_t kObjectBytes = 64;
constexpr std::uint64_t kListItemBytes = 16;
constexpr std::uint64_t kDictItemBytes = 100;
constexpr std::uint64_t kMemoItemBytes = 16;

// Longer ones cost time that grows with the square of their length.
constexpr std::uint64_t kMaxIntegerBytes = 1024;

constexpr std::string_view kCutOff = "it ends before its end mark";
constexpr std::string_view kDamaged = "it is damaged";
constexpr std::string_view kNamesCode = "it names a class or a function, which could run code";
constexpr std::string_view kOddKeys = "a dictionary in it has keys that are neither text nor small integers";
constexpr std::string_view kTooLarge = "it would need more memory than an import may take";

class Walk {
 public:
  Walk(std::span<const std::uint8_t> pickle, std::uint64_t max_memory_bytes)
      : bytes_(pickle), max_memory_bytes_(max_memory_bytes) {}

  std::string run() {
    while (error_.empty() && !stopped_) {
      if (at_ >= bytes_.size()) {
        fail(kCutOff);
        break;
      }
      step(bytes_[at_++]);
      if (memory_bytes_ > max_memory_bytes_) fail(kTooLarge);
    }
    return std::string(error_);
  }

 private:
  void fail(std::string_view error) {
    if (error_.empty()) error_ = error;
  }

  void step(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (integer(1) > 5) fail("it is of a later pickle protocol than 5");
        return;
      case 0x95:  // FRAME
        if (integer(8) > bytes_.size() - at_) fail(kCutOff);
        return;
      case '.':
        if (stack_.size() != 1 || !marks_.empty()) fail(kDamaged);
        stopped_ = true;
        return;
      default:
        break;
    }
    if (!scalar(opcode) && !text(opcode) && !container(opcode) && !stack_or_memo(opcode)) fail(kNamesCode);
  }

  bool scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 'N':
      case 0x88:
      case 0x89:
        break;
      case 'I':
      case 'L':
      case 'F':
        if (line().size() > kMaxIntegerBytes) fail(kDamaged);
        break;
      case 'K':
      case 'M':
      case 'J':
        skip(opcode == 'K' ? 1 : opcode == 'M' ? 2 : 4);
        push(Kind::kSmallInteger);
        return true;
      case 'G':
        skip(8);
        break;
      case 0x8a:
      case 0x8b: {
        const std::uint64_t size = integer(opcode == 0x8a ? 1 : 4);
        if (size > kMaxIntegerBytes) fail(kDamaged);
        skip(size);
        break;
      }
      case 'C':
        charge(skip(integer(1)));
        break;
      case 'B':
        charge(skip(integer(4)));
        break;
      case 0x8e:
        charge(skip(integer(8)));
        break;
      default:
        return false;
    }
    push(Kind::kScalar);
    return true;
  }

  bool text(std::uint8_t opcode) {
    switch (opcode) {
      case 'U':
      case 0x8c:
        charge(4 * skip(integer(1)));
        break;
      case 'T':
      case 'X':
        charge(4 * skip(integer(4)));
        break;
      case 0x8d:
        charge(4 * skip(integer(8)));
        break;
      case 'S':
      case 'V':
        charge(4 * line().size());
        break;
      default:
        return false;
    }
    push(Kind::kText);
    return true;
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case ']':
        push(Kind::kList);
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case ')':
        push(Kind::kTuple);
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        pop(opcode - 0x84U);
        push(Kind::kTuple);
        return true;
      case 't':
        charge(kListItemBytes * pop_to_mark().size());
        push(Kind::kTuple);
        return true;
      case 'l':
        charge(kListItemBytes * pop_to_mark().size());
        push(Kind::kList);
        return true;
      case 'd': {
        const std::vector<Kind> items = pop_to_mark();
        require_keys(items);
        push(Kind::kDict);
        return true;
      }
      case 'a':
        pop(1);
        charge(kListItemBytes);
        require_top(Kind::kList);
        return true;
      case 'e':
        charge(kListItemBytes * pop_to_mark().size());
        require_top(Kind::kList);
        return true;
      case 's':
        if (available() >= 2 && !is_key(stack_[stack_.size() - 2])) fail(kOddKeys);
        pop(2);
        charge(kDictItemBytes);
        require_top(Kind::kDict);
        return true;
      case 'u': {
        const std::vector<Kind> items = pop_to_mark();
        require_keys(items);
        require_top(Kind::kDict);
        return true;
      }
      default:
        return false;
    }
  }

  bool stack_or_memo(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        charge(kListItemBytes);
        return true;
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          pop(1);
        }
        return true;
      case '1':
        static_cast<void>(pop_to_mark());
        return true;
      case '2':
        if (const auto kind = top()) stack_.push_back(*kind);
        charge(kListItemBytes);
        return true;
      case 0x94:
        put(memo_count_);
        return true;
      case 'p':
        put(number(line()));
        return true;
      case 'q':
        put(integer(1));
        return true;
      case 'r':
        put(integer(4));
        return true;
      case 'g':
        get(number(line()));
        return true;
      case 'h':
        get(integer(1));
        return true;
      case 'j':
        get(integer(4));
        return true;
      default:
        return false;
    }
  }

  // A little endian number of some bytes.
  std::uint64_t integer(std::size_t size) {
    if (bytes_.size() - at_ < size) {
      fail(kCutOff);
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += size;
    return value;
  }

  std::uint64_t skip(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      fail(kCutOff);
      return 0;
    }
    at_ += size;
    return size;
  }

  std::string_view line() {
    const std::size_t begin = at_;
    while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
    if (at_ == bytes_.size()) {
      fail(kCutOff);
      return {};
    }
    ++at_;
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, at_ - 1 - begin};
  }

  std::uint64_t number(std::string_view digits) {
    std::uint64_t value = 0;
    if (digits.empty() || digits.size() > 10) fail(kDamaged);
    for (const char digit : digits.substr(0, 10)) {
      if (digit < '0' || digit > '9') fail(kDamaged);
      value = value * 10 + static_cast<std::uint64_t>(digit - '0');
    }
    return value;
  }

  void charge(std::uint64_t bytes) { memory_bytes_ += bytes; }

  void push(Kind kind) {
    stack_.push_back(kind);
    charge(kObjectBytes);
  }

  // How much lies above the last mark.
  [[nodiscard]] std::size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  void pop(std::size_t count) {
    if (count > available()) {
      fail(kDamaged);
    } else {
      stack_.resize(stack_.size() - count);
    }
  }

  std::vector<Kind> pop_to_mark() {
    if (marks_.empty()) {
      fail(kDamaged);
      return {};
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Kind> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  std::optional<Kind> top() {
    if (available() == 0) {
      fail(kDamaged);
      return std::nullopt;
    }
    return stack_.back();
  }

  void require_top(Kind kind) {
    if (top() != kind) fail(kDamaged);
  }

  // Items are keys and values in turn.
  void require_keys(const std::vector<Kind>& items) {
    if (items.size() % 2 != 0) fail(kDamaged);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (!is_key(items[i])) fail(kOddKeys);
    }
    charge(kDictItemBytes * (items.size() / 2));
  }

  void put(std::uint64_t index) {
    const auto kind = top();
    // Picklers count; a large index would make the unpickler allocate a table of that length.
    if (index > memo_count_ + 255 || !kind) {
      fail(kDamaged);
      return;
    }
    if (index >= memo_.size()) {
      charge(kMemoItemBytes * (index + 1 - memo_.size()));
      memo_.resize(index + 1);
    }
    memo_count_ += memo_[index] ? 0 : 1;
    memo_[index] = kind;
  }

  void get(std::uint64_t index) {
    const auto kind = index < memo_.size() ? memo_[index] : std::nullopt;
    if (!kind) {
      fail(kDamaged);
      return;
    }
    stack_.push_back(*kind);
    charge(kListItemBytes);
  }

  std::span<const std::uint8_t> bytes_;
  std::uint64_t max_memory_bytes_;
  std::uint64_t memory_bytes_ = 0;
  std::size_t at_ = 0;
  bool stopped_ = false;
  std::string_view error_;
  std::vector<Kind> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<Kind>> memo_;
  std::uint64_t memo_count_ = 0;  // objects in it: the next index that MEMOIZE gives
};

}  // namespace

std::string why_not_plain_pickle(std::span<const std::uint8_t> pickle, std::uint64_t max_memory_bytes) {
  return Walk(pickle, max_memory_bytes).run();
}

}  // namespace torchprof
