#include "client/lib/read/chunk_fetch.h"

#include <algorithm>

#include "client/lib/shown_server.h"
#include "common/base/math.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kFetchChunk{"client.fetch_chunk", {"bytes"}};
constexpr Duration kSmallReadLimit = 30s;  ///< time that a server has to answer

}  // namespace

ChunkFetch::ChunkFetch(Resources& resources, Context context, ChunkRange range, runtime::Event& changed)
    : resources_(resources),
      context_(context),
      range_(std::move(range)),
      changed_(&changed),
      started_(resources.now()) {}

void ChunkFetch::cancel() {
  cancelled_ = true;
  // While bytes arrive they go to buffers of the caller's lease, so the caller still waits for the end of that.
  if (!receiving_) changed_ = nullptr;
  if (stream_) stream_->close();
}

std::span<const std::byte> ChunkFetch::part(size_t index) const {
  if (is_small(range_)) return std::as_bytes(std::span(whole_.data()));
  if (index >= buffers_.size()) return {};
  const uint64_t at = index * Memory::kBufferBytes;
  return buffers_[index].first(std::min<uint64_t>(range_.bytes() - at, Memory::kBufferBytes));
}

asio::awaitable<void> ChunkFetch::run(std::shared_ptr<ChunkFetch> self) {
  Status status = co_await self->run_task();
  self->receiving_ = false;
  self->stream_.reset();
  if (!status.ok() || self->cancelled_) self->buffers_.clear();
  if (!status.ok()) {
    status = status.with_context(fmt::format("chunk {}:{} on {}", self->range_.stripe_id,
                                             self->range_.chunk.index(), shown_server(self->range_.chunk)));
    if (!self->cancelled_) self->report(status);
  }
  self->status_ = std::move(status);
  if (self->changed_) self->changed_->notify_all();
}

asio::awaitable<Status> ChunkFetch::run_task() {
  sight::Task task(context_, kFetchChunk, {static_cast<double>(range_.bytes())});
  const Context outer = std::exchange(context_, task.context());
  Status status = task.finish(co_await (is_small(range_) ? fetch() : fetch_in_turn()));
  context_ = outer;
  co_return status;
}

asio::awaitable<Status> ChunkFetch::fetch_in_turn() {
  runtime::Semaphore& turns = resources_.fetch_turns.of(ServerId{range_.chunk.server_id()});
  {
    sight::Wait wait(context_, sight::WaitKind::kResource,
                     runtime::named_target(context_, "turns of fetches"));
    KINTSUGI_CO_TRY(wait.finish(co_await turns.acquire(context_.deadline)));
  }
  Status status{Code::kCancelled, "no longer needed"};
  if (!cancelled_) status = co_await fetch();
  turns.release();
  co_return status;
}

asio::awaitable<Status> ChunkFetch::fetch() {
  if (range_.chunk.address().empty()) co_return Status{Code::kUnavailable, "its server is not alive"};
  KINTSUGI_CO_ASSIGN(server_, runtime::Endpoint::parse(range_.chunk.address()));
  if (is_small(range_)) co_return co_await fetch_whole(context_);
  proto::ReadChunkRequest request;
  request.set_stripe_id(range_.stripe_id);
  request.set_index(range_.chunk.index());
  request.set_capability(range_.chunk.capability());
  request.set_offset(range_.begin);
  request.set_length(range_.bytes());
  request.set_frame_bytes(Memory::kBufferBytes);
  const Context limited = context_.with_deadline(resources_.now() + kStreamLimit);
  auto opened = co_await resources_.rpc.open_stream(limited, server_, rpc::Method::kReadChunk, request);
  if (!opened) co_return opened.error();
  // Who cancelled may be gone, and the lease with it: from here on buffers of that lease would be taken.
  if (cancelled_) co_return Status{Code::kCancelled, "no longer needed"};
  stream_ = std::move(*opened);
  receiving_ = true;
  co_return co_await receive_all();
}

asio::awaitable<Status> ChunkFetch::fetch_whole(Context context) {
  proto::ReadSmallChunkRequest request;
  request.set_stripe_id(range_.stripe_id);
  request.set_index(range_.chunk.index());
  request.set_capability(range_.chunk.capability());
  proto::ReadSmallChunkResponse response;
  const Context limited = context.with_deadline(resources_.now() + kSmallReadLimit);
  KINTSUGI_CO_TRY(
      co_await resources_.rpc.call(limited, server_, rpc::Method::kReadSmallChunk, request, response));
  if (response.data().size() != range_.bytes())
    co_return Status{Code::kCorrupt, "the server sent another range than asked for"};
  const uint32_t crc = crc32c(std::as_bytes(std::span(response.data())));
  if (crc != response.crc()) co_return Status{Code::kCorrupt, "block 0: checksum mismatch"};
  if (crc != range_.chunk.crc())
    co_return Status{Code::kCorrupt, "the whole chunk differs from what was written"};
  whole_ = std::move(response);
  co_return Status{};
}

asio::awaitable<Status> ChunkFetch::receive_all() {
  for (uint64_t at = range_.begin; at < range_.end; at += Memory::kBufferBytes)
    buffers_.push_back(resources_.memory.take());
  while (received_ < range_.bytes()) {
    proto::ReadChunkData header;
    KINTSUGI_CO_ASSIGN(const rpc::Stream::Received frame, co_await stream_->receive(header));
    const uint64_t blocks = divide_up(uint64_t{frame.payload_bytes}, kBlockBytes);
    if (frame.end || frame.payload_bytes == 0 || header.offset() != range_.begin + received_ ||
        frame.payload_bytes > range_.bytes() - received_ || received_ % kBlockBytes != 0 ||
        static_cast<uint64_t>(header.block_crcs_size()) != blocks) {
      co_return Status{Code::kCorrupt, "the server sent another range than asked for"};
    }
    const std::span<const uint32_t> crcs(header.block_crcs().data(),
                                         static_cast<size_t>(header.block_crcs_size()));
    KINTSUGI_CO_TRY(co_await receive_frame(frame.payload_bytes, crcs));
  }
  proto::ReadChunkDone done;
  KINTSUGI_CO_ASSIGN(const rpc::Stream::Received last, co_await stream_->receive(done));
  if (!last.end) co_return Status{Code::kCorrupt, "the server sent more than asked for"};
  if (range_.is_whole() && crc32c_of_blocks(block_crcs_, range_.end) != range_.chunk.crc()) {
    co_return Status{Code::kCorrupt, "the whole chunk differs from what was written"};
  }
  const proto::Empty thanks;
  Status ended = co_await stream_->send_end(thanks);
  if (ended.ok()) resources_.rpc.finish(server_, std::move(stream_));
  co_return Status{};
}

asio::awaitable<Status> ChunkFetch::receive_frame(uint32_t payload_bytes, std::span<const uint32_t> crcs) {
  uint32_t left = payload_bytes;
  while (left > 0) {
    const size_t in_buffer = received_ % Memory::kBufferBytes;
    const size_t bytes = std::min<size_t>(left, Memory::kBufferBytes - in_buffer);
    const std::span<std::byte> into =
        buffers_[received_ / Memory::kBufferBytes].span().subspan(in_buffer, bytes);
    KINTSUGI_CO_TRY(co_await stream_->receive_payload(into));
    const std::vector<uint32_t> found = crc32c_blocks(into);
    const auto differs = std::mismatch(found.begin(), found.end(), crcs.begin());
    if (differs.first != found.end()) {
      const uint64_t block =
          (range_.begin + received_) / kBlockBytes + static_cast<uint64_t>(differs.first - found.begin());
      co_return Status{Code::kCorrupt, fmt::format("block {}: checksum mismatch", block)};
    }
    block_crcs_.insert(block_crcs_.end(), found.begin(), found.end());
    crcs = crcs.subspan(found.size());
    received_ += bytes;
    left -= static_cast<uint32_t>(bytes);
  }
  co_return Status{};
}

void ChunkFetch::report(const Status& failure) {
  log::debug("{}", failure.to_string());
  const ServerId server{range_.chunk.server_id()};
  const bool lost = failure.code() == Code::kCorrupt || failure.code() == Code::kNotFound ||
                    failure.code() == Code::kMediumError;
  if (lost) {
    resources_.reports.report(context_, range_.id(), server, failure);
  } else {
    resources_.health.failed(server);
  }
}

}  // namespace kintsugi::client
