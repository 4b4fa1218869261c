#include "client/lib/read/lost_chunk_read.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/base/math.h"
#include "common/log/log.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadLostChunk{"client.read_lost_chunk", {"bytes"}};

}  // namespace

LostChunkRead::LostChunkRead(Resources& resources, Context context, proto::Stripe stripe, uint32_t index,
                             LostReadOptions options, Sink& sink)
    : resources_(resources),
      context_(context),
      stripe_(std::make_shared<proto::Stripe>(std::move(stripe))),
      index_(index),
      options_(std::move(options)),
      sink_(sink),
      began_(resources.now()) {}

asio::awaitable<Status> LostChunkRead::run() {
  KINTSUGI_CO_ASSIGN(policy_, erasure::Policy::parse(stripe_->policy()));
  if (index_ >= policy_.chunks() || stripe_->chunks_size() != static_cast<int>(policy_.chunks()))
    co_return Status{Code::kInvalidArgument,
                     fmt::format("stripe {} has no chunk {}", stripe_->stripe_id(), index_)};
  const uint64_t length = stripe_->chunks(static_cast<int>(index_)).length();
  const uint64_t begin = std::min(options_.offset, length), left = length - begin;
  const uint64_t end = begin + (options_.length == 0 ? left : std::min(options_.length, left));
  if (begin == end) co_return Status{Code::kInvalidArgument, "there is nothing in that range of the chunk"};
  range_ = lost_range(*stripe_, index_, begin, end);
  next_ = begin;
  sight::Module module(context_, kReadLostChunk, {static_cast<double>(range_.bytes())});
  context_ = module.context();
  co_return module.finish(co_await read());
}

asio::awaitable<Status> LostChunkRead::read() {
  if (options_.shape) {
    const Status status = co_await read_by_tree();
    if (status.ok() || !options_.fall_back || status.code() == Code::kCorrupt) co_return status;
    log::warning("{}; decoding here instead", status.to_string());
    report_.trouble = status.message();
  }
  co_return co_await read_here();
}

asio::awaitable<Status> LostChunkRead::read_by_tree() {
  DegradedRead read(resources_, context_, range_,
                    {.shape = *options_.shape, .slice_bytes = options_.slice_bytes}, sink_);
  Status status;
  {
    const sight::Wait wait(context_, sight::WaitKind::kJoin);  // it is a task of its own
    status = co_await read.run();
  }
  report_ = read.report();
  next_ = read.delivered();
  crc_ = read.crc();
  co_return status;
}

asio::awaitable<Status> LostChunkRead::read_here() {
  proto::ChunkPlacement& lost = *stripe_->mutable_chunks(static_cast<int>(index_));
  lost.set_server_id(0);
  lost.clear_address();
  lost.set_available(false);
  report_.shape.reset();
  report_.slice_bytes = kWindowBytes;
  planned_ = next_;
  ReadPipeline<WindowReader> pipeline(resources_, kLocalWindows);
  Status status = co_await pipeline.run(context_, *this);
  if (status.ok() && range_.is_whole() && crc_ != range_.chunk.crc())
    status = {Code::kCorrupt,
              fmt::format("chunk {}:{}: the decoded bytes differ from those that were written",
                          stripe_->stripe_id(), index_)};
  report_.seconds = to_seconds(resources_.now() - began_);
  report_.bytes = next_ - range_.begin;
  co_return status;
}

asio::awaitable<Status> LostChunkRead::plan_next(std::unique_ptr<WindowReader>& next) {
  if (planned_ >= range_.end) co_return Status{};
  // Whole cells where a cell's sub-cells are decoded together, otherwise whole blocks.
  const uint64_t unit = policy_.rows() > 1 ? policy_.cell_bytes : kBlockBytes;
  Window window;
  window.chunk_begin = round_down(planned_, unit);
  window.chunk_end =
      std::min({window.chunk_begin + std::max(round_down(kWindowBytes, unit), unit),
                round_up(range_.end, unit), erasure::chunk_length(policy_, stripe_->length(), 0)});
  window.wanted = {index_};
  planned_ = window.chunk_end;
  // No window takes a tree: decoding here is what the caller asked for, or what is left.
  next = std::make_unique<WindowReader>(resources_, context_, StripeWindow{stripe_, policy_, window},
                                        WindowReader::Trees::kNever);
  co_return Status{};
}

asio::awaitable<Status> LostChunkRead::take(ReadPipeline<WindowReader>::InFlight& window) {
  KINTSUGI_CO_TRY(*window.result);
  if (report_.first_byte_seconds == 0) report_.first_byte_seconds = to_seconds(resources_.now() - began_);
  const WindowChunks& chunks = window.read->chunks();
  report_.helpers = static_cast<uint32_t>(chunks.chunks_fetched());
  report_.bytes_in += chunks.bytes_fetched();
  const std::vector<std::span<const std::byte>> parts = chunks.bytes_of(index_, next_, range_.end);
  uint64_t length = 0;
  for (const std::span<const std::byte> part : parts) {
    crc_ = crc32c_combine(crc_, crc32c(part), part.size());
    length += part.size();
  }
  KINTSUGI_CO_TRY(co_await sink_.write(next_, parts));
  next_ += length;
  co_return Status{};
}

}  // namespace kintsugi::client
