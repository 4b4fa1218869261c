/// Ends of a measured transfer that cost next to nothing, so that only the cluster is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/io.h"

namespace kintsugi::cli {

/// Bytes that no code or disk can take for zeros.
class PatternSource final : public client::Source {
 public:
  explicit PatternSource(uint64_t bytes);
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override { return bytes_; }

 private:
  const uint64_t bytes_;
  std::vector<std::byte> pattern_;
};

/// Forgets what it gets.
class NullSink final : public client::Sink {
 public:
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override;
};

}  // namespace kintsugi::cli
