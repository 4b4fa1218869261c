#include "client/lib/read/chunk_fetch.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/meta.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kFetchChunk{"client.fetch_chunk", {"bytes"}};
constexpr size_t kMaxReported = 10000;
constexpr Duration kReportLimit = 5s;

asio::awaitable<void> send_report(Core& core, Context context, std::string request) {
  const Context limited = context.with_deadline(core.now() + kReportLimit);
  (void)co_await core.rpc.call_raw(limited, core.options.metaserver, rpc::Method::kReportChunk,
                                   std::move(request));
}

}  // namespace

ChunkFetch::ChunkFetch(Core& core, Context context, uint64_t stripe_id, proto::ChunkPlacement placement,
                       uint64_t begin, uint64_t end, runtime::Event& changed)
    : core_(core),
      context_(context),
      stripe_id_(stripe_id),
      placement_(std::move(placement)),
      begin_(begin),
      end_(end),
      changed_(&changed),
      started_(core.now()) {}

void ChunkFetch::cancel() {
  cancelled_ = true;
  if (!receiving_) changed_ = nullptr;
  if (stream_) stream_->close();
}

std::span<const std::byte> ChunkFetch::part(size_t index) const {
  const uint64_t at = index * Memory::kBufferBytes;
  if (index >= buffers_.size()) return {};
  return buffers_[index].first(std::min<uint64_t>(end_ - begin_ - at, Memory::kBufferBytes));
}

asio::awaitable<void> ChunkFetch::run(std::shared_ptr<ChunkFetch> self) {
  runtime::Semaphore& gate = self->core_.gates.of(ServerId{self->placement_.server_id()});
  Status status = co_await gate.acquire(self->context_.deadline);
  if (status.ok()) {
    if (self->cancelled_) {
      status = Status{Code::kCancelled, "no longer needed"};
    } else {
      status = co_await self->fetch();
    }
    gate.release();
  }
  self->receiving_ = false;
  self->stream_.reset();
  if (!status.ok() || self->cancelled_) self->buffers_.clear();
  if (!status.ok()) {
    status = status.with_context(fmt::format("chunk {}:{} on {}", self->stripe_id_, self->placement_.index(),
                                             self->placement_.address()));
    if (!self->cancelled_) self->report(status);
  }
  self->status_ = std::move(status);
  if (self->changed_) self->changed_->notify_all();
}

asio::awaitable<Status> ChunkFetch::fetch() {
  sight::Module module(context_, kFetchChunk, {static_cast<double>(end_ - begin_)});
  if (placement_.address().empty()) co_return module.finish({Code::kUnavailable, "its server is not alive"});
  KINTSUGI_CO_ASSIGN(server_, runtime::Endpoint::parse(placement_.address()));
  proto::ReadChunkRequest request;
  request.set_stripe_id(stripe_id_);
  request.set_index(placement_.index());
  request.set_capability(placement_.capability());
  request.set_offset(begin_);
  request.set_length(end_ - begin_);
  request.set_frame_bytes(Memory::kBufferBytes);
  const Context limited = module.context().with_deadline(core_.now() + kStreamLimit);
  auto opened = co_await core_.rpc.open_stream(limited, server_, rpc::Method::kReadChunk, request);
  if (!opened) co_return module.finish(opened.error());
  // Whoever cancelled may be gone, and the lease with it.
  if (cancelled_) co_return module.finish({Code::kCancelled, "no longer needed"});
  stream_ = std::move(*opened);
  receiving_ = true;
  co_return module.finish(co_await receive_all());
}

asio::awaitable<Status> ChunkFetch::receive_all() {
  for (uint64_t at = begin_; at < end_; at += Memory::kBufferBytes)
    buffers_.push_back(core_.memory.take());
  while (received_ < end_ - begin_) {
    proto::ReadChunkData header;
    KINTSUGI_CO_ASSIGN(const rpc::Stream::Received frame, co_await stream_->receive(header));
    const uint64_t blocks = (uint64_t{frame.payload_bytes} + kBlockBytes - 1) / kBlockBytes;
    if (frame.end || frame.payload_bytes == 0 || header.offset() != begin_ + received_ ||
        frame.payload_bytes > end_ - begin_ - received_ || received_ % kBlockBytes != 0 ||
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
  if (begin_ == 0 && end_ == placement_.length() && crc32c_of_blocks(block_crcs_, end_) != placement_.crc()) {
    co_return Status{Code::kCorrupt, "the whole chunk differs from what was written"};
  }
  const proto::Empty thanks;
  Status ended = co_await stream_->send_end(thanks);
  if (ended.ok()) core_.rpc.finish(server_, std::move(stream_));
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
          (begin_ + received_) / kBlockBytes + static_cast<uint64_t>(differs.first - found.begin());
      co_return Status{Code::kCorrupt, fmt::format("block {}: checksum mismatch", block)};
    }
    block_crcs_.insert(block_crcs_.end(), found.begin(), found.end());
    crcs = crcs.subspan(found.size());
    received_ += bytes;
    left -= static_cast<uint32_t>(bytes);
  }
  co_return Status{};
}

void ChunkFetch::report(const Status& status) {
  log::debug("{}", status.to_string());
  if (status.code() != Code::kCorrupt && status.code() != Code::kNotFound) {
    core_.health.failed(ServerId{placement_.server_id()});
    return;
  }
  const ChunkId chunk{StripeId{stripe_id_}, placement_.index()};
  if (core_.reported.size() >= kMaxReported || !core_.reported.insert(chunk).second) return;
  log::warning("{}", status.to_string());
  proto::ReportChunkRequest request;
  request.set_stripe_id(stripe_id_);
  request.set_index(placement_.index());
  request.set_server_id(placement_.server_id());
  request.set_corrupt(status.code() == Code::kCorrupt);
  request.set_detail(status.message());
  core_.background.spawn(send_report(core_, context_, request.SerializeAsString()));
}

}  // namespace kintsugi::client
