#include "spans/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "spans/utf8.h"

namespace torchprof {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::size_t kMinHashDigits = 12;  // hexadecimal; shorter ones are words: `bf16bf16`, `1c11`
constexpr std::size_t kMinCacheKeyCharacters = 40;
constexpr std::size_t kMinNumberDigits = 6;
constexpr std::size_t kMinAddressDigits = 6;
// Each reference of a mangled name to a part of itself may double what it stands for.
constexpr std::size_t kMaxReferences = 24;

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'f'); }
constexpr bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) noexcept { return c >= 'A' && c <= 'Z'; }
// What a word is made of: underscores separate.
constexpr bool is_word(char c) noexcept {
  return is_digit(c) || is_lower(c) || is_upper(c) || (c & 0x80) != 0;
}
constexpr bool is_identifier(char c) noexcept { return is_word(c) || c == '_'; }

// The names in front of the first template argument or parameter of a mangled name, which need no grammar;
// empty when there are none.
std::string leading_names(std::string_view mangled) {
  std::string_view rest = mangled.substr(2);
  if (rest.starts_with('N')) rest.remove_prefix(1);
  std::string name;
  while (!rest.empty() && is_digit(rest[0])) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(end - rest.data());
    if (error != std::errc() || size == 0 || size > rest.size()) return {};
    const std::string_view part = rest.substr(0, size);
    if (!part.starts_with("_GLOBAL__N_")) name.append(name.empty() ? "" : "::").append(part);
    rest.remove_prefix(size);
  }
  return name;
}

// References to parts of the name and to template arguments: `S_`, `S1A_`, `T_`, `T0_`. Some of those counted
// may be parts of identifiers.
std::size_t count_references(std::string_view mangled) noexcept {
  std::size_t references = 0;
  for (std::size_t i = 0; i < mangled.size(); ++i) {
    if (mangled[i] != 'S' && mangled[i] != 'T') continue;
    const std::size_t end = mangled.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", i + 1);
    if (end == std::string_view::npos) break;
    if (mangled[end] == '_') ++references;
    i = end;
  }
  return references;
}

// What cannot be demangled stays as it is. The C++ runtime may be older than the compiler of the kernel: that
// of GCC 12 does not know the type bfloat16.
std::string demangle(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  if (count_references(name) <= kMaxReferences) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> readable(
        abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
    if (status == 0 && readable) return readable.get();
  }
  std::string leading = leading_names(name);
  return leading.empty() ? std::string(name) : leading;
}

// `void a::(anonymous namespace)::f<int>(T*)` -> `a::f`.
std::string function_of(std::string_view signature) {
  std::string name;
  int depth = 0;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const char c = signature[i];
    if (signature.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      if (depth == 0 && signature.substr(i + 1).starts_with("::")) i += 2;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>') {
      depth = std::max(0, depth - 1);
    } else if (depth == 0 && c == '(') {
      break;
    } else if (depth == 0 && c == ' ') {
      name.clear();  // what stood before was a return type
    } else if (depth == 0) {
      name += c;
    }
  }
  return name.empty() ? std::string(signature) : name;
}

// `Kernel`, `Kernel2`, `device_kernel`: says nothing of what it runs.
bool is_runner(std::string_view function) noexcept {
  const std::size_t scope = function.rfind("::");
  std::string_view own = scope == std::string_view::npos ? function : function.substr(scope + 2);
  while (!own.empty() && is_digit(own.back())) own.remove_suffix(1);
  return own == "Kernel" || own == "device_kernel";
}

// The first template argument of a function, where it names a class.
std::string_view first_argument(std::string_view signature) noexcept {
  const std::size_t open = signature.find('<');
  if (open == std::string_view::npos) return {};
  const std::string_view arguments = signature.substr(open + 1);
  std::size_t end = 0;
  while (end < arguments.size() && (is_identifier(arguments[end]) || arguments[end] == ':')) ++end;
  const std::string_view argument = arguments.substr(0, end);
  const bool is_class = argument.find_first_of("_:") != std::string_view::npos && !is_digit(argument[0]);
  return is_class ? argument : std::string_view();
}

// `f16f16f32` is made of types, though all its characters are hexadecimal.
bool is_made_of_types(std::string_view word) noexcept {
  for (std::size_t i = 0; i < word.size();) {
    if (word[i] == 'b') ++i;
    if (i >= word.size() || word[i] != 'f') return false;
    const std::size_t digits = ++i;
    while (i < word.size() && is_digit(word[i])) ++i;
    if (i == digits || i > digits + 2) return false;
  }
  return true;
}

bool is_hash(std::string_view word) noexcept {
  if (!std::any_of(word.begin(), word.end(), is_digit)) return false;
  if (word.size() >= kMinCacheKeyCharacters) {
    return std::all_of(word.begin(), word.end(), [](char c) { return is_digit(c) || is_lower(c); });
  }
  return word.size() >= kMinHashDigits && std::all_of(word.begin(), word.end(), is_hex) &&
         !is_made_of_types(word);
}

bool is_address(std::string_view word) noexcept {
  return word.starts_with("0x") && word.size() >= kMinAddressDigits + 2 &&
         std::all_of(word.begin() + 2, word.end(), is_hex);
}

bool is_long_number(std::string_view word) noexcept {
  return word.size() >= kMinNumberDigits && std::all_of(word.begin(), word.end(), is_digit);
}

// Triton numbers the arguments from 0 and marks those it specialized for: `0d1d2de3`, `01d2c`.
bool is_specialization(std::string_view word) noexcept {
  constexpr std::string_view kMarks = "cde";
  if (word.empty() || word[0] != '0') return false;
  const std::size_t next = word.find_first_not_of(kMarks, 1);
  const auto is_mark_or_digit = [&](char c) {
    return is_digit(c) || kMarks.find(c) != std::string_view::npos;
  };
  return next != std::string_view::npos && word[next] == '1' &&
         word.find_first_of(kMarks) != std::string_view::npos &&
         std::all_of(word.begin(), word.end(), is_mark_or_digit);
}

bool is_folded(std::string_view word) noexcept {
  return is_hash(word) || is_address(word) || is_long_number(word) || is_specialization(word);
}

// Without the words that are folded, each with what separates it from the word before.
std::string fold(std::string_view name) {
  std::string kept;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t word = std::find_if(name.begin() + i, name.end(), is_word) - name.begin();
    const std::size_t end = std::find_if_not(name.begin() + word, name.end(), is_word) - name.begin();
    if (word == end || !is_folded(name.substr(word, end - word))) kept += name.substr(i, end - i);
    i = end;
  }
  return kept.empty() ? std::string(name) : kept;
}

std::string shorten(std::string_view name) {
  const std::string signature = demangle(name);
  const std::string function = function_of(signature);
  const std::string_view run = is_runner(function) ? first_argument(signature) : std::string_view();
  return std::string(
      cut_to_characters(fold(run.empty() ? std::string_view(function) : run), kMaxKernelNameCharacters));
}

}  // namespace

std::string kernel_name(std::string_view recorded) {
  // What is left may be a mangled name in turn, or have lost what hid a hash: each round leaves less.
  std::string name(recorded);
  for (std::string shorter = shorten(name); shorter != name; shorter = shorten(name))
    name = std::move(shorter);
  return name;
}

}  // namespace torchprof
