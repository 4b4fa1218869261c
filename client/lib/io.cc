#include "client/lib/io.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kintsugi::client {

asio::awaitable<Status> Sink::hole(uint64_t offset, uint64_t length) {
  static constexpr std::array<std::byte, 64 << 10> kSome{};
  constexpr uint64_t kAtOnce = 1 << 20;
  std::vector<std::span<const std::byte>> ranges;
  for (const uint64_t end = offset + length; offset < end;) {
    ranges.clear();
    const uint64_t bytes = std::min(end - offset, kAtOnce);
    for (uint64_t left = bytes; left > 0; left -= ranges.back().size())
      ranges.push_back(std::span(kSome).first(std::min<uint64_t>(left, kSome.size())));
    KINTSUGI_CO_TRY(co_await write(offset, ranges));
    offset += bytes;
  }
  co_return Status{};
}

asio::awaitable<Result<size_t>> MemorySource::read(uint64_t offset,
                                                   std::span<const std::span<std::byte>> into) {
  size_t done = 0;
  for (std::span<std::byte> range : into) {
    if (offset + done >= bytes_.size()) break;
    const size_t part = std::min<uint64_t>(range.size(), bytes_.size() - offset - done);
    std::memcpy(range.data(), bytes_.data() + offset + done, part);
    done += part;
  }
  co_return done;
}

asio::awaitable<Status> MemorySink::write(uint64_t, std::span<const std::span<const std::byte>> from) {
  for (std::span<const std::byte> bytes : from) {
    while (!bytes.empty()) {
      if (range_ == into_.size())
        co_return Status{Code::kLimitExceeded, "more bytes than the caller has room for"};
      const size_t part = std::min(bytes.size(), into_[range_].size() - in_range_);
      std::memcpy(into_[range_].data() + in_range_, bytes.data(), part);
      bytes = bytes.subspan(part);
      in_range_ += part;
      filled_ += part;
      if (in_range_ < into_[range_].size()) continue;
      ++range_;
      in_range_ = 0;
    }
  }
  co_return Status{};
}

}  // namespace kintsugi::client
