/// From sums of sub-chunks back to bytes of a chunk, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/io.h"
#include "common/base/status.h"

namespace kintsugi::client {

/// Codes with rows > 1 cut each cell into `rows` sub-cells; sub-chunk t of a chunk is its sub-cells t one
/// after the other, a short last cell counting as padded. With rows = 1 sums are the chunk's bytes and are
/// handed on as they come; otherwise a cell is handed on once it is whole. Memory: one cell when rows > 1.
class CellOrder {
 public:
  /// Only bytes of [begin, end) of the chunk go to the sink; what else the sums cover is dropped.
  CellOrder(uint32_t rows, uint64_t cell_bytes, uint64_t begin, uint64_t end, Sink& sink);

  /// The next bytes of every sub-chunk, from `offset` of it on: `sums` has one range for each row, all
  /// equally long. The first call begins at a cell's begin, each further one where the last one ended
  /// (asserted).
  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums);
  /// Nothing more comes: hands on what there is of a last, short cell.
  asio::awaitable<Status> finish();

 private:
  asio::awaitable<Status> hand_on(uint64_t chunk_offset, std::span<const std::byte> bytes);
  asio::awaitable<Status> hand_on_cell();

  const uint32_t rows_;
  const uint64_t cell_bytes_, sub_cell_bytes_;
  const uint64_t begin_, end_;
  Sink& sink_;
  std::vector<std::byte> cell_;  // when rows > 1
  uint64_t cell_number_ = 0;
  uint64_t filled_ = 0;  // bytes of each of its sub-cells
};

}  // namespace kintsugi::client
