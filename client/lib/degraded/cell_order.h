/// From sums of sub-chunks back to bytes of a chunk, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/io.h"
#include "common/base/status.h"
#include "partial_sum/sum_sink.h"

namespace kintsugi::client {

/// Codes with rows > 1 cut each cell into `rows` sub-cells; sub-chunk t of a chunk is its sub-cells t one after the
/// other, a short last cell counting as padded. With rows = 1 sums are the chunk's bytes and are handed on as they
/// come; otherwise a cell is handed on once it is whole. Memory: one cell when rows > 1.
class CellOrder final : public partial_sum::SumSink {
 public:
  /// Only bytes of [begin, end) of the chunk go to the sink; the others that the sums cover are dropped.
  CellOrder(uint32_t rows, uint64_t cell_bytes, uint64_t begin, uint64_t end, Sink& sink);

  /// Takes the next bytes of every sub-chunk, from `offset` of it on: `sums` has one range for each row, all equally
  /// long. The first call begins at a cell's begin, each further one where the last one ended (asserted).
  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t nonzero_bytes) override;
  asio::awaitable<Status> idle() override { co_return Status{}; }
  /// Hands on a last, short cell. Nothing more comes.
  asio::awaitable<Status> finish();

  /// Bytes that the sink took, and whether it is taking some now.
  uint64_t handed_on() const { return handed_on_; }
  bool is_handing_on() const { return handing_on_; }

 private:
  asio::awaitable<Status> hand_on(uint64_t chunk_offset, std::span<const std::byte> bytes);
  asio::awaitable<Status> hand_on_cell();

  const uint32_t rows_;
  const uint64_t cell_bytes_, sub_cell_bytes_;
  const uint64_t begin_, end_;
  Sink& sink_;
  std::vector<std::byte> cell_;  ///< collects a cell; only used when rows > 1
  uint64_t cell_number_ = 0;
  uint64_t filled_ = 0;  ///< bytes of each sub-cell that have arrived
  uint64_t handed_on_ = 0;
  bool handing_on_ = false;
};

}  // namespace kintsugi::client
