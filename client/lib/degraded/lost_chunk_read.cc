#include "client/lib/degraded/lost_chunk_read.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadLostChunk{"client.read_lost_chunk", {"bytes"}};

}  // namespace

LostChunkRead::LostChunkRead(Core& core, Context context, proto::Stripe stripe, uint32_t index,
                             LostReadOptions options, Sink& sink)
    : core_(core),
      context_(context),
      stripe_(std::move(stripe)),
      index_(index),
      options_(std::move(options)),
      sink_(sink),
      began_(core.now()),
      changed_(core.runtime),
      tasks_(core.runtime) {}

asio::awaitable<Result<DegradedReadReport>> LostChunkRead::run() {
  KINTSUGI_CO_ASSIGN(policy_, erasure::Policy::parse(stripe_.policy()));
  if (index_ >= policy_.chunks() || stripe_.chunks_size() != static_cast<int>(policy_.chunks()))
    co_return Status{Code::kInvalidArgument,
                     fmt::format("stripe {} has no chunk {}", stripe_.stripe_id(), index_)};
  chunk_ = stripe_.chunks(static_cast<int>(index_));
  begin_ = std::min(options_.offset, chunk_.length());
  const uint64_t left = chunk_.length() - begin_;
  end_ = begin_ + (options_.length == 0 ? left : std::min(options_.length, left));
  if (begin_ == end_) co_return Status{Code::kInvalidArgument, "there is nothing in that range of the chunk"};
  next_ = begin_;
  sight::Module module(context_, kReadLostChunk, {static_cast<double>(end_ - begin_)});
  context_ = module.context();

  Status status;
  if (options_.shape) {
    status = co_await read_by_tree();
    if (status.ok()) co_return report_;
    if (!options_.fall_back || status.code() == Code::kCorrupt) co_return module.finish(status);
    log::warning("{}; decoding here instead", status.to_string());
    report_.trouble = status.message();
  }
  status = co_await read_here();
  if (!module.finish(status).ok()) co_return status;
  co_return report_;
}

asio::awaitable<Status> LostChunkRead::read_by_tree() {
  LostRange range = lost_range(stripe_, index_, begin_, end_);
  const TreeWishes wishes{.shape = *options_.shape, .slice_bytes = options_.slice_bytes};
  auto read = std::make_unique<DegradedRead>(core_, context_, std::move(range), wishes, sink_);
  const Status status = co_await read->run();
  report_ = read->report();
  next_ = read->delivered();
  crc_ = read->crc();
  co_return status;
}

asio::awaitable<Status> LostChunkRead::read_here() {
  proto::ChunkPlacement& lost = *stripe_.mutable_chunks(static_cast<int>(index_));
  lost.set_server_id(0);
  lost.clear_address();
  lost.set_available(false);
  report_.shape.reset();
  report_.slice_bytes = kWindowBytes;
  planned_ = next_;
  Status status = co_await read_windows();
  for (const auto& window : in_flight_) {
    while (!window->result)
      co_await changed_.wait();
  }
  co_await tasks_.join();
  in_flight_.clear();
  const bool whole = begin_ == 0 && end_ == chunk_.length();
  if (status.ok() && whole && crc_ != chunk_.crc())
    status = {Code::kCorrupt, fmt::format("chunk {}:{}: what was decoded differs from what was written",
                                          stripe_.stripe_id(), index_)};
  report_.seconds = to_seconds(core_.now() - began_);
  report_.bytes = next_ - begin_;
  co_return status;
}

asio::awaitable<Status> LostChunkRead::read_windows() {
  while (true) {
    while (in_flight_.size() < kLocalWindows) {
      KINTSUGI_CO_ASSIGN(const bool started, co_await start_next());
      if (!started) break;
    }
    if (in_flight_.empty()) co_return Status{};
    KINTSUGI_CO_TRY(co_await hand_on_front());
  }
}

asio::awaitable<Result<bool>> LostChunkRead::start_next() {
  if (planned_ >= end_) co_return false;
  // Whole cells where a cell's sub-cells are decoded together, otherwise whole blocks.
  const uint64_t unit = policy_.rows() > 1 ? policy_.cell_bytes : kBlockBytes;
  const uint64_t most = std::max(kWindowBytes / unit * unit, unit);
  Window window;
  window.chunk_begin = planned_ / unit * unit;
  window.chunk_end = std::min(window.chunk_begin + most, (end_ + unit - 1) / unit * unit);
  window.chunk_end = std::min(window.chunk_end, erasure::chunk_length(policy_, stripe_.length(), 0));
  window.wanted = {index_};
  const size_t buffers = WindowReader::buffers_needed(policy_, window);
  Lease lease = core_.memory.try_reserve(buffers);
  if (lease.count() == 0) {
    if (!in_flight_.empty()) co_return false;
    KINTSUGI_CO_ASSIGN(lease, co_await core_.memory.reserve(buffers, core_.now() + kMemoryLimit));
  }
  planned_ = window.chunk_end;
  auto started = std::make_unique<InFlight>();
  started->reader = std::make_unique<WindowReader>(core_, context_, stripe_, policy_, std::move(window),
                                                   std::move(lease), WindowReader::Trees::kNever);
  in_flight_.push_back(std::move(started));
  tasks_.spawn(run_window(in_flight_.back().get()));
  co_return true;
}

asio::awaitable<void> LostChunkRead::run_window(InFlight* window) {
  window->result = co_await window->reader->run();
  changed_.notify_all();
}

asio::awaitable<Status> LostChunkRead::hand_on_front() {
  InFlight& front = *in_flight_.front();
  while (!front.result)
    co_await changed_.wait();
  KINTSUGI_CO_TRY(*front.result);
  if (report_.first_byte_seconds == 0) report_.first_byte_seconds = to_seconds(core_.now() - began_);
  report_.helpers = static_cast<uint32_t>(front.reader->chunks_fetched());
  report_.bytes_in += front.reader->bytes_fetched();
  const std::vector<std::span<const std::byte>> parts = front.reader->bytes_of(index_, next_, end_);
  uint64_t length = 0;
  for (const std::span<const std::byte> part : parts) {
    crc_ = crc32c_combine(crc_, crc32c(part), part.size());
    length += part.size();
  }
  KINTSUGI_CO_TRY(co_await sink_.write(next_, parts));
  next_ += length;
  in_flight_.pop_front();
  co_return Status{};
}

}  // namespace kintsugi::client
