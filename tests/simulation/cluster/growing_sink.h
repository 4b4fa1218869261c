/// A sink that takes all that is read, whatever its size.
#pragma once

#include <vector>

#include "client/lib/io.h"

namespace kintsugi::simulation {

class GrowingSink final : public client::Sink {
 public:
  asio::awaitable<Status> write(uint64_t, std::span<const std::span<const std::byte>> from) override {
    for (const auto& part : from)
      bytes.insert(bytes.end(), part.begin(), part.end());
    co_return Status{};
  }
  std::vector<std::byte> bytes;
};

}  // namespace kintsugi::simulation
