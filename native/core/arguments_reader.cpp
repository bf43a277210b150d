#include "core/arguments_reader.h"

#include <string_view>

#include "core/json_scanner.h"

namespace torchprof {
namespace {

// Tells of each string once whether it can be the arguments of an event.
class ArgumentTexts {
 public:
  explicit ArgumentTexts(const StringPool& pool) : pool_(pool), verdicts_(pool.size()) {}

  [[nodiscard]] bool are_sound(std::uint32_t id) {
    std::uint8_t& verdict = verdicts_[id];
    if (verdict == kNotAsked) {
      const std::string_view text = pool_.name(id);
      verdict = text.size() <= kMaxArgumentsBytes && is_json_object(text) ? kSound : kDamaged;
    }
    return verdict == kSound;
  }

 private:
  enum Verdict : std::uint8_t { kNotAsked, kSound, kDamaged };

  const StringPool& pool_;
  std::vector<std::uint8_t> verdicts_;
};

}  // namespace

std::vector<ArgumentsRecord> read_arguments(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                                            std::uint64_t events_count, const StringIds& strings,
                                            const StringPool& pool, ProblemCounts& problems) {
  std::vector<ArgumentsRecord> records;
  ArgumentTexts texts(pool);
  for (const Chunk& chunk : chunks) {
    if (chunk.kind != ChunkKind::kArguments) continue;
    for (ArgumentsRecord record : records_of<ArgumentsRecord>(file, chunk)) {
      if (record.event >= events_count) {
        problems.add(ReadProblem::kSideRowWithoutEvent);
        continue;
      }
      record.text = strings.find(record.text, problems);
      if (texts.are_sound(record.text)) {
        records.push_back(record);
      } else {
        problems.add(ReadProblem::kDamagedArguments);
      }
    }
  }
  return records;
}

}  // namespace torchprof
