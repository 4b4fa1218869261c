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
  for (std::span<const std::byte> range : from) {
    if (range.size() > into_.size() - filled_) {
      co_return Status{Code::kLimitExceeded, "more bytes than the caller has room for"};
    }
    std::memcpy(into_.data() + filled_, range.data(), range.size());
    filled_ += range.size();
  }
  co_return Status{};
}

}  // namespace kintsugi::client
