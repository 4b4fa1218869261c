#include "client/lib/io.h"

#include <algorithm>
#include <cstring>

namespace kintsugi::client {

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
