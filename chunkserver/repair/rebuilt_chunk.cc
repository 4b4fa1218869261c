#include "chunkserver/repair/rebuilt_chunk.h"

#include <cstring>

#include "common/base/math.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/span.h"

namespace kintsugi::chunkserver {

RebuiltChunk::RebuiltChunk(Destination to, ChunkId id, const proto::RebuiltChunk& spec,
                           const partial_sum::SumRange& range, std::unique_ptr<ChunkWriter> writer)
    : to_(to),
      id_(id),
      length_(spec.length()),
      crc_(spec.crc()),
      first_sum_(spec.first_sum()),
      rows_(range.rows),
      cell_bytes_(range.cell_bytes),
      writer_(std::move(writer)) {}

asio::awaitable<Result<std::unique_ptr<RebuiltChunk>>> RebuiltChunk::create(
    Context context, Destination to, StripeId stripe, const proto::RebuiltChunk& spec,
    const partial_sum::SumRange& range) {
  const ChunkId id{stripe, spec.index()};
  auto present = to.store.find(id);
  if (present && *present != ChunkInfo{id, spec.length(), spec.crc()}) {
    co_return Status{Code::kAlreadyExists, fmt::format("another chunk {} is here", id)};
  }
  KINTSUGI_CO_ASSIGN(std::unique_ptr<ChunkWriter> writer,
                     co_await to.store.create(context, id, spec.policy(), spec.length()));
  co_return std::unique_ptr<RebuiltChunk>(new RebuiltChunk(to, id, spec, range, std::move(writer)));
}

asio::awaitable<Status> RebuiltChunk::put(Context context, uint64_t offset,
                                          std::span<const std::span<std::byte>> sums) {
  KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kRebuild, fmt::format("{}", id_));
  const TimePoint began = to_.clock.now();
  const uint64_t sub_cell = rows_ > 1 ? cell_bytes_ / rows_ : 0;
  for (uint32_t row = 0; row < rows_; ++row) {
    const std::span<const std::byte> sum = sums[first_sum_ + row];
    KINTSUGI_ASSERT(rows_ == 1 || (offset % sub_cell == 0 && sum.size() <= sub_cell));
    const uint64_t begin = rows_ == 1 ? offset : offset / sub_cell * cell_bytes_ + row * sub_cell;
    if (begin >= length_) break;
    KINTSUGI_CO_TRY(co_await write(context, sum.first(std::min<uint64_t>(sum.size(), length_ - begin))));
  }
  write_seconds_ += to_seconds(to_.clock.now() - began);
  co_return Status{};
}

asio::awaitable<Status> RebuiltChunk::write(Context context, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!buffer_) {
      runtime::Wait wait(context, runtime::WaitKind::kResource, runtime::named_target(context, "buffers"));
      auto buffer = co_await to_.buffers.acquire(context.deadline);
      if (!buffer) co_return wait.finish(buffer.error());
      buffer_ = std::move(*buffer);
      filled_ = 0;
    }
    // Whole blocks, since only the last part of a chunk may end within one.
    const size_t room = round_down(buffer_.size(), kBlockBytes);
    const size_t part = std::min(bytes.size(), room - filled_);
    std::memcpy(buffer_.data() + filled_, bytes.data(), part);
    filled_ += part;
    bytes = bytes.subspan(part);
    if (filled_ == room) KINTSUGI_CO_TRY(co_await flush(context));
  }
  co_return Status{};
}

asio::awaitable<Status> RebuiltChunk::flush(Context context) {
  if (filled_ == 0) co_return Status{};
  const size_t bytes = std::exchange(filled_, 0);
  runtime::Buffer full = std::move(buffer_);
  buffer_ = {};
  co_return co_await writer_->append(context, std::move(full), bytes);
}

asio::awaitable<Status> RebuiltChunk::commit(Context context) {
  const TimePoint began = to_.clock.now();
  Status status = co_await flush(context);
  if (status.ok()) {
    auto committed = co_await writer_->commit(context, length_, crc_);
    if (!committed) status = committed.error();
  }
  write_seconds_ += to_seconds(to_.clock.now() - began);
  co_return status;
}

asio::awaitable<void> RebuiltChunk::abort() {
  buffer_ = {};
  co_await writer_->abort();
}

}  // namespace kintsugi::chunkserver
