#include "client/lib/degraded/cell_order.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::client {

CellOrder::CellOrder(uint32_t rows, uint64_t cell_bytes, uint64_t begin, uint64_t end, Sink& sink)
    : rows_(rows),
      cell_bytes_(cell_bytes),
      sub_cell_bytes_(cell_bytes / rows),
      begin_(begin),
      end_(end),
      sink_(sink) {
  KINTSUGI_ASSERT(rows == 1 || (sub_cell_bytes_ > 0 && cell_bytes % rows == 0));
  if (rows > 1) cell_.resize(cell_bytes);
}

asio::awaitable<Status> CellOrder::put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                                       uint64_t) {
  KINTSUGI_ASSERT(sums.size() == rows_);
  if (rows_ == 1) co_return co_await hand_on(offset, sums.front());
  const uint64_t bytes = sums.front().size();
  for (uint64_t done = 0; done < bytes;) {
    if (filled_ == 0) cell_number_ = (offset + done) / sub_cell_bytes_;
    KINTSUGI_ASSERT(offset + done == cell_number_ * sub_cell_bytes_ + filled_);
    const uint64_t part = std::min(bytes - done, sub_cell_bytes_ - filled_);
    for (uint32_t row = 0; row < rows_; ++row)
      std::memcpy(cell_.data() + row * sub_cell_bytes_ + filled_, sums[row].data() + done, part);
    filled_ += part;
    done += part;
    if (filled_ == sub_cell_bytes_) KINTSUGI_CO_TRY(co_await hand_on_cell());
  }
  co_return Status{};
}

asio::awaitable<Status> CellOrder::finish() {
  if (filled_ == 0) co_return Status{};
  for (uint32_t row = 0; row < rows_; ++row)
    std::memset(cell_.data() + row * sub_cell_bytes_ + filled_, 0, sub_cell_bytes_ - filled_);
  co_return co_await hand_on_cell();
}

asio::awaitable<Status> CellOrder::hand_on_cell() {
  filled_ = 0;
  co_return co_await hand_on(cell_number_ * cell_bytes_, cell_);
}

asio::awaitable<Status> CellOrder::hand_on(uint64_t chunk_offset, std::span<const std::byte> bytes) {
  const uint64_t from = std::max(begin_, chunk_offset), to = std::min(end_, chunk_offset + bytes.size());
  if (from >= to) co_return Status{};
  const std::array<std::span<const std::byte>, 1> one{bytes.subspan(from - chunk_offset, to - from)};
  handing_on_ = true;
  Status taken = co_await sink_.write(from, one);
  handing_on_ = false;
  handed_on_ += to - from;
  co_return taken;
}

}  // namespace kintsugi::client
