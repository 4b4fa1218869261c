#include "client/lib/write/chunk_sender.h"

#include <algorithm>

#include "client/lib/shown_server.h"
#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/proto/chunk.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kSendChunk{"client.send_chunk", {"index", "max_bytes"}};

constexpr int kMaxReplacements = 3;  ///< servers tried for one chunk after the first
/// The metaserver may take so long to name another server than one that failed lately; then that one is tried
/// after all.
constexpr Duration kSecondThoughtsLimit = 2s;

}  // namespace

ChunkSender::ChunkSender(Resources& resources, Context context, const Context& writer,
                         StripeAllocation& allocation, const Chunk& chunk, runtime::Event& changed)
    : resources_(resources),
      context_(context),
      writer_span_(writer.trace.span_id),
      allocation_(allocation),
      chunk_(chunk),
      queue_(resources.runtime, chunk.queue_slices),
      changed_(changed) {}

asio::awaitable<void> ChunkSender::push(const Context& writer, Slice slice) {
  if (failed_) co_return;
  // The writer waits for this sender's queue.
  const sight::Wait wait(writer, sight::WaitKind::kSibling, 0, context_.trace.span_id);
  auto owned = std::make_unique<Slice>(std::move(slice));
  (void)co_await queue_.push(std::move(owned));  // a refusal means that the chunk has failed in the meantime
}

void ChunkSender::end(uint64_t length, uint32_t crc) {
  length_ = length;
  crc_ = crc;
  queue_.close();
}

void ChunkSender::abort() {
  aborted_ = true;
  queue_.close(Status{Code::kCancelled, "the write was broken off"});
  leave_server();
}

void ChunkSender::give_up() {
  KINTSUGI_ASSERT(waiting_since_);
  given_up_ = true;
  leave_server();
}

void ChunkSender::leave_server() {
  if (stream_) stream_->close();
  if (small_write_) small_write_->leave();
}

void ChunkSender::end_wait() {
  longest_wait_ = std::max(longest_wait_, resources_.now() - *waiting_since_);
  waiting_since_.reset();
}

asio::awaitable<void> ChunkSender::run() {
  if (is_empty()) {
    result_ = Status{};
    changed_.notify_all();
    co_return;
  }
  if (!allocation_.server(chunk_.index)) {
    failed_ = true;
    result_ = Status{Code::kUnavailable, fmt::format("chunk {}: no server was usable for it", chunk_.index)};
    queue_.close(*result_);
    changed_.notify_all();
    co_return;
  }
  sight::Task task{context_, kSendChunk, {double(chunk_.index), double(chunk_.max_bytes)}};
  const Context outer = std::exchange(context_, task.context());
  Status status = task.finish(co_await send_all());
  context_ = outer;
  waiting_since_.reset();
  if (!status.ok() && given_up_)
    status = Status{Code::kDeadlineExceeded, "the server stopped responding while others continued"};
  if (!status.ok()) {
    failed_ = true;
    if (stream_) stream_->close();
    queue_.close(status);
    while (true) {  // returns the buffers of queued slices to the pool
      auto dropped = co_await queue_.pop();
      if (!dropped) break;
    }
    if (!aborted_) {
      resources_.health.failed(allocation_.server(chunk_.index));
      allocation_.note_failure(chunk_.index);
      log::debug("chunk {}:{} was not written: {}", allocation_.stripe().stripe_id(), chunk_.index,
                 status.to_string());
    }
  }
  if (!status.ok()) {
    status = status.with_context(
        fmt::format("chunk {} on {}", chunk_.index, shown_server(allocation_.placement(chunk_.index))));
  }
  result_ = std::move(status);
  changed_.notify_all();
}

asio::awaitable<Status> ChunkSender::send_all() {
  if (is_small()) co_return co_await send_whole();
  KINTSUGI_CO_TRY(co_await try_servers(&ChunkSender::open_at));
  KINTSUGI_CO_TRY(co_await send_slices());
  co_return co_await seal();
}

asio::awaitable<Status> ChunkSender::try_servers(TryAt try_at) {
  // The server may have failed since the stripe was allocated. If no other can be had, it is tried all the same.
  if (resources_.health.avoid(allocation_.server(chunk_.index))) {
    const Context limited = context_.with_deadline(resources_.now() + kSecondThoughtsLimit);
    (void)co_await allocation_.replace(limited, chunk_.index, resources_.health.avoided(), Repeat::kNever);
    if (aborted_) co_return Status{Code::kCancelled, "the write was broken off"};
  }
  for (int attempt = 0;; ++attempt) {
    const Status status = co_await (this->*try_at)(allocation_.placement(chunk_.index));
    if (status.ok() || aborted_ || given_up_ || attempt == kMaxReplacements) co_return status;
    resources_.health.failed(allocation_.server(chunk_.index));
    allocation_.note_failure(chunk_.index);
    const Status replaced = co_await allocation_.replace(context_, chunk_.index, {}, Repeat::kAllowed);
    if (!replaced.ok()) co_return status.with_context("no other server to replace it");
  }
}

asio::awaitable<Status> ChunkSender::open_at(proto::ChunkPlacement place) {
  if (place.server_id() == 0 || place.address().empty()) co_return Status{Code::kUnavailable, "no server"};
  KINTSUGI_CO_ASSIGN(server_, runtime::Endpoint::parse(place.address()));
  proto::WriteChunkRequest request;
  request.set_stripe_id(allocation_.stripe().stripe_id());
  request.set_index(chunk_.index);
  request.set_policy(allocation_.stripe().policy());
  request.set_capability(place.capability());
  request.set_server_id(place.server_id());
  request.set_max_bytes(chunk_.max_bytes);
  const Context limited = context_.with_deadline(resources_.now() + kStreamLimit);
  KINTSUGI_CO_ASSIGN(
      stream_, co_await resources_.rpc.open_stream(limited, server_, rpc::Method::kWriteChunk, request));
  if (aborted_) co_return Status{Code::kCancelled, "the write was broken off"};
  co_return Status{};
}

asio::awaitable<Status> ChunkSender::send_whole() {
  {
    const sight::Wait wait(context_, sight::WaitKind::kSibling, 0, writer_span_);
    KINTSUGI_CO_ASSIGN(whole_, co_await queue_.pop());
  }
  const Status sent = co_await try_servers(&ChunkSender::send_whole_to);
  whole_.reset();
  co_return sent;
}

asio::awaitable<Status> ChunkSender::send_whole_to(proto::ChunkPlacement place) {
  if (place.server_id() == 0 || place.address().empty()) co_return Status{Code::kUnavailable, "no server"};
  KINTSUGI_CO_ASSIGN(server_, runtime::Endpoint::parse(place.address()));
  runtime::Semaphore& turns = resources_.small_write_turns.of(ServerId{place.server_id()});
  sight::Wait wait(context_, sight::WaitKind::kResource,
                   runtime::named_target(context_, "turns of small writes"));
  KINTSUGI_CO_TRY(wait.finish(co_await turns.acquire(context_.deadline)));
  wait.stop();
  proto::WriteSmallChunkRequest request;
  request.set_stripe_id(allocation_.stripe().stripe_id());
  request.set_index(chunk_.index);
  request.set_policy(allocation_.stripe().policy());
  request.set_capability(place.capability());
  request.set_server_id(place.server_id());
  request.set_data(whole_->data().data(), whole_->bytes);
  request.set_crc(whole_->block_crcs.front());
  small_write_ = SmallWrite::start(resources_, context_, server_, std::move(request));
  const Status written = co_await confirm_small_write();
  small_write_.reset();
  turns.release();
  co_return written;
}

asio::awaitable<Status> ChunkSender::confirm_small_write() {
  if (aborted_) co_return Status{Code::kCancelled, "the write was broken off"};
  waiting_since_ = resources_.now();
  sight::Wait wait(context_, sight::WaitKind::kJoin);
  const Status written = co_await small_write_->wait();
  wait.stop();
  if (written.ok()) end_wait();
  waiting_since_.reset();
  co_return written;
}

asio::awaitable<Status> ChunkSender::send_slices() {
  while (true) {
    sight::Wait wait(context_, sight::WaitKind::kSibling, 0, writer_span_);
    auto slice = co_await queue_.pop();
    wait.stop();
    if (!slice) break;
    proto::WriteChunkData header;
    header.set_offset((*slice)->chunk_offset);
    header.mutable_block_crcs()->Add((*slice)->block_crcs.begin(), (*slice)->block_crcs.end());
    const std::span<const std::byte> data = (*slice)->data();
    const std::array<asio::const_buffer, 1> payload{asio::const_buffer(data.data(), data.size())};
    waiting_since_ = resources_.now();
    KINTSUGI_CO_TRY(co_await stream_->send(header, payload));
    end_wait();
  }
  if (aborted_) co_return Status{Code::kCancelled, "the write was broken off"};
  co_return Status{};
}

asio::awaitable<Status> ChunkSender::seal() {
  waiting_since_ = resources_.now();
  KINTSUGI_CO_TRY(co_await seal_and_confirm());
  end_wait();
  co_return Status{};
}

asio::awaitable<Status> ChunkSender::seal_and_confirm() {
  proto::WriteChunkSeal seal;
  seal.set_length(length_);
  seal.set_crc(crc_);
  KINTSUGI_CO_TRY(co_await stream_->send_end(seal));
  proto::WriteChunkDone done;
  KINTSUGI_CO_ASSIGN(const rpc::Stream::Received received, co_await stream_->receive(done));
  if (!received.end || done.length() != length_ || done.crc() != crc_) {
    co_return Status{Code::kCorrupt,
                     fmt::format("the server stored {} bytes with CRC {:08x}, sent were {} with {:08x}",
                                 done.length(), done.crc(), length_, crc_)};
  }
  resources_.rpc.finish(server_, std::move(stream_));
  co_return Status{};
}

}  // namespace kintsugi::client
