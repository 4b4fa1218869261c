/// Where file data comes from and goes to. Lists of ranges let a whole row of cells move in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/disk.h"

namespace kintsugi::client {

/// Bytes [begin, end) of a file.
struct DataRange {
  uint64_t begin = 0, end = 0;
};

class Source {
 public:
  virtual ~Source() = default;

  /// Fills the ranges of `into` in order with the bytes from `offset` on; fewer than asked for only at the
  /// end. A source that cannot seek is read in order, without gaps.
  virtual asio::awaitable<Result<size_t>> read(uint64_t offset,
                                               std::span<const std::span<std::byte>> into) = 0;

  /// Known for files and memory, which can be read again at any offset; unknown for pipes, which cannot. It is asked
  /// for once more when so many bytes have been read: a file may have grown.
  virtual std::optional<uint64_t> size() const = 0;

  /// None: all of it is data. Else at least one range: those are data, in order and apart, and what lies between them
  /// is holes, which are never read. The last one, which may be empty, is followed by nothing but what the source
  /// grows by. Only of one that can be read at any offset.
  virtual std::optional<std::vector<DataRange>> data() const { return std::nullopt; }
};

class Sink {
 public:
  virtual ~Sink() = default;

  /// Takes the next bytes of what is read, in order, without gaps; `offset` is where they are in the file. Their memory
  /// is the caller's again on return.
  virtual asio::awaitable<Status> write(uint64_t offset,
                                        std::span<const std::span<const std::byte>> from) = 0;

  /// The next `length` bytes are zeros that the file has no data for. Writes zeros, for those that can do no better.
  virtual asio::awaitable<Status> hole(uint64_t offset, uint64_t length);
};

/// Bytes that the caller keeps alive.
class MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

/// Fills ranges of memory that the caller keeps alive, the first one first; `filled()` says how far. More than fits
/// is kLimitExceeded.
class MemorySink : public Sink {
 public:
  explicit MemorySink(std::span<std::byte> into) : into_{into} {}
  explicit MemorySink(std::vector<std::span<std::byte>> into) : into_(std::move(into)) {}
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override;
  size_t filled() const { return filled_; }

 private:
  std::vector<std::span<std::byte>> into_;
  size_t range_ = 0;     ///< index of the range being filled
  size_t in_range_ = 0;  ///< bytes filled in that range
  size_t filled_ = 0;    ///< bytes filled in all ranges
};

}  // namespace kintsugi::client
