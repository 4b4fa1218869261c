#include "client/cli/bench_io.h"

#include <algorithm>
#include <cstring>

namespace kintsugi::cli {
namespace {

/// The pattern repeats after this many bytes; it fits the caches, so that reading it does not cost memory bandwidth.
constexpr size_t kPatternBytes = size_t{1} << 20;

}  // namespace

PatternSource::PatternSource(uint64_t bytes) : bytes_(bytes), pattern_(kPatternBytes) {
  uint64_t state = 0x9E3779B97F4A7C15ull;
  for (std::byte& byte : pattern_) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    byte = static_cast<std::byte>(state);
  }
}

asio::awaitable<Result<size_t>> PatternSource::read(uint64_t offset,
                                                    std::span<const std::span<std::byte>> into) {
  size_t done = 0;
  for (std::span<std::byte> range : into) {
    for (size_t at = 0; at < range.size() && offset + done < bytes_;) {
      const size_t phase = (offset + done) % kPatternBytes;
      const size_t part =
          std::min<uint64_t>({range.size() - at, kPatternBytes - phase, bytes_ - offset - done});
      std::memcpy(range.data() + at, pattern_.data() + phase, part);
      at += part;
      done += part;
    }
  }
  co_return done;
}

asio::awaitable<Status> NullSink::write(uint64_t, std::span<const std::span<const std::byte>>) {
  co_return Status{};
}

}  // namespace kintsugi::cli
