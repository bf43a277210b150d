// libFuzzer target: any bytes after a sound start of a header must be read without a crash, a leak or a
// loop. Built with clang on demand:
//   cmake -S . -B <dir> -DTORCHPROF_TESTS=ON -DTORCHPROF_PYTHON=OFF -DCMAKE_CXX_COMPILER=clang++
//     -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link,address,undefined
//   cmake --build <dir> --target fuzz_reader
//   <dir>/native/tests/fuzz_reader -max_len=131072 <folder with some .tprof files>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/averages.h"
#include "core/links.h"
#include "core/reader.h"
#include "core/tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace torchprof;
  // In words: the reader is promised alignment.
  std::vector<std::uint64_t> words((std::max<std::size_t>(size, kGranuleBytes) + 7) / 8);
  std::memcpy(words.data(), data, size);
  const auto bytes = std::as_writable_bytes(std::span(words));
  auto& header = *reinterpret_cast<FileHeader*>(bytes.data());
  std::memcpy(header.magic, kFileMagic, sizeof(header.magic));
  header.version = kFormatVersion;
  header.endian = kEndianMark;
  header.header_bytes = kGranuleBytes;
  header.granule_bytes = kGranuleBytes;

  const Recording recording = read_recording(bytes, nullptr);
  const Tree tree = build_tree(recording);
  (void)build_averages(recording, tree, {.by_shapes = true, .ranges = {}});
  (void)forward_backward_links(recording);
  return 0;
}
