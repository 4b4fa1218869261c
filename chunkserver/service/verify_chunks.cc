#include "chunkserver/service/verify_chunks.h"

#include <algorithm>

#include "chunkserver/store/disk/aligned_memory.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kVerifyChunks{"chunkserver.verify_chunks", {"chunks"}, {"bytes"}};
/// A chunk that is replaced again and again while it is opened is given up for this time.
constexpr int kMaxOpens = 3;
/// A piece takes about so long at the rate that is asked for.
constexpr double kPieceSeconds = 0.25;

proto::VerifiedChunk::Verdict verdict_of(Code code) {
  switch (code) {
    case Code::kOk: return proto::VerifiedChunk::WHOLE;
    case Code::kNotFound: return proto::VerifiedChunk::MISSING;
    case Code::kCorrupt: return proto::VerifiedChunk::CORRUPT;
    default: return proto::VerifiedChunk::UNREADABLE;
  }
}

}  // namespace

/// One call of the RPC.
class VerifyChunksHandler::Call {
 public:
  Call(VerifyChunksHandler& verifier, Context context, uint64_t bytes_per_second, rpc::Stream& stream)
      : verifier_(verifier),
        context_(context),
        rate_(static_cast<double>(bytes_per_second)),
        stream_(stream),
        memory_(new_memory()),
        told_at_(verifier.clock_.now()),
        free_(told_at_) {}

  asio::awaitable<Status> run(const proto::VerifyChunksRequest& request);
  uint64_t bytes() const { return bytes_; }

 private:
  /// Adds the verdict on one chunk. An error is one of the call: it is cut short.
  asio::awaitable<Status> verify(ChunkId id);
  asio::awaitable<Result<std::unique_ptr<ChunkReader>>> open(ChunkId id);
  /// Reads all blocks. `outcome` is how the chunk is.
  asio::awaitable<Status> read_all(ChunkReader& chunk, Status& outcome);
  asio::awaitable<Status> rest(uint64_t bytes, Duration took);
  asio::awaitable<Status> tell();
  Status check_going_on() const;
  bool users() const;
  static std::shared_ptr<AlignedMemory> new_memory() { return std::make_shared<AlignedMemory>(kPieceBytes); }
  uint64_t piece_blocks() const;

  VerifyChunksHandler& verifier_;
  const Context context_;
  const double rate_;  ///< bytes per second; 0: no limit
  rpc::Stream& stream_;
  std::shared_ptr<AlignedMemory> memory_;
  proto::VerifyChunksData untold_;
  TimePoint told_at_;
  TimePoint free_;  ///< time at which the rate lets through what was read so far
  uint64_t bytes_ = 0;
};

asio::awaitable<Status> VerifyChunksHandler::Call::run(const proto::VerifyChunksRequest& request) {
  for (const proto::VerifyChunksRequest::Chunk& chunk : request.chunks()) {
    KINTSUGI_CO_TRY(co_await verify({StripeId{chunk.stripe_id()}, chunk.index()}));
    const bool late = verifier_.clock_.now() - told_at_ >= kTellInterval;
    if (late || untold_.chunks_size() >= kToldAtOnce) KINTSUGI_CO_TRY(co_await tell());
  }
  if (untold_.chunks_size() > 0) KINTSUGI_CO_TRY(co_await tell());
  co_return co_await stream_.send_end(proto::VerifyChunksDone::default_instance());
}

asio::awaitable<Status> VerifyChunksHandler::Call::verify(ChunkId id) {
  Status outcome;
  proto::VerifiedChunk verified;
  auto chunk = co_await open(id);
  if (chunk) {
    KINTSUGI_CO_TRY(co_await read_all(**chunk, outcome));
    verified.set_length((*chunk)->length());
    verified.set_crc((*chunk)->crc());
  } else {
    outcome = chunk.error();
  }
  KINTSUGI_CO_TRY(check_going_on());
  verified.set_verdict(verdict_of(outcome.code()));
  if (!outcome.ok()) verified.set_detail(outcome.message());
  *untold_.add_chunks() = std::move(verified);
  ++verifier_.counters_.chunks_verified;
  co_return Status{};
}

asio::awaitable<Result<std::unique_ptr<ChunkReader>>> VerifyChunksHandler::Call::open(ChunkId id) {
  for (int opens = 1;; ++opens) {
    auto chunk = co_await verifier_.store_.open(context_, id, ReadFor::kVerification);
    if (chunk || chunk.error().code() != Code::kUnavailable || opens == kMaxOpens) co_return chunk;
  }
}

asio::awaitable<Status> VerifyChunksHandler::Call::read_all(ChunkReader& chunk, Status& outcome) {
  for (uint64_t block = 0; block < chunk.blocks();) {
    KINTSUGI_CO_TRY(check_going_on());
    const TimePoint began = verifier_.clock_.now();
    auto read =
        co_await chunk.read_blocks(context_, block, piece_blocks(), OwnedSpan{memory_->span(), memory_});
    if (!read) {
      if (read.error().code() == Code::kUnavailable)
        memory_ = new_memory();  // the disk that hangs has the other
      outcome = read.error();
      co_return Status{};
    }
    block += blocks_of(read->data.size());
    bytes_ += read->data.size();
    verifier_.counters_.bytes_verified += read->data.size();
    untold_.set_bytes(untold_.bytes() + read->data.size());
    KINTSUGI_CO_TRY(co_await rest(read->data.size(), verifier_.clock_.now() - began));
    if (verifier_.clock_.now() - told_at_ >= kTellInterval) KINTSUGI_CO_TRY(co_await tell());
  }
  co_return Status{};
}

uint64_t VerifyChunksHandler::Call::piece_blocks() const {
  constexpr uint64_t kMostBlocks = kPieceBytes / kBlockBytes;
  if (rate_ <= 0) return kMostBlocks;
  return std::clamp<uint64_t>(static_cast<uint64_t>(rate_ * kPieceSeconds) / kBlockBytes, 1, kMostBlocks);
}

bool VerifyChunksHandler::Call::users() const {
  const ServiceCounters& counters = verifier_.counters_;
  return counters.users_served > 0 || counters.users_rate(verifier_.clock_.now()) > 0;
}

asio::awaitable<Status> VerifyChunksHandler::Call::rest(uint64_t bytes, Duration took) {
  const TimePoint now = verifier_.clock_.now();
  const bool yields = users();
  if (rate_ > 0) {
    const double seconds = static_cast<double>(bytes) / (yields ? rate_ / 2 : rate_);
    free_ = std::max(free_, now - took) +
            std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  } else if (yields) {
    free_ = now + took;
  }
  while (free_ > verifier_.clock_.now() && !verifier_.stopping_)
    (void)co_await verifier_.stopped_.wait_until(free_);
  co_return check_going_on();
}

asio::awaitable<Status> VerifyChunksHandler::Call::tell() {
  const proto::VerifyChunksData data = std::exchange(untold_, {});
  told_at_ = verifier_.clock_.now();
  co_return co_await stream_.send(data);
}

Status VerifyChunksHandler::Call::check_going_on() const {
  if (verifier_.stopping_) return {Code::kCancelled, "this server is stopping"};
  if (verifier_.clock_.now() >= context_.deadline) return {Code::kDeadlineExceeded, "the call took too long"};
  return {};
}

asio::awaitable<Status> VerifyChunksHandler::serve(Context context, const proto::VerifyChunksRequest& request,
                                                   rpc::Stream& stream) {
  sight::Module module{context, kVerifyChunks, {double(request.chunks_size())}};
  if (request.chunks_size() > kMaxChunks) {
    co_return module.finish(
        {Code::kInvalidArgument, fmt::format("{} chunks, at most {}", request.chunks_size(), kMaxChunks)});
  }
  if (request.bytes_per_second() != 0 && request.bytes_per_second() < kLeastBytesPerSecond) {
    co_return module.finish(
        {Code::kInvalidArgument,
         fmt::format("{} bytes a second, at least {}", request.bytes_per_second(), kLeastBytesPerSecond)});
  }
  // The caller's own call is counted already.
  if (counters_.verifications_running > kMaxCalls) {
    co_return module.finish(
        {Code::kLimitExceeded, fmt::format("{} verifications run on this server", kMaxCalls)});
  }
  Call call(*this, module.context(), request.bytes_per_second(), stream);
  Status ended = co_await call.run(request);
  module.output(0, double(call.bytes()));
  co_return module.finish(std::move(ended));
}

void VerifyChunksHandler::stop() {
  stopping_ = true;
  stopped_.notify_all();
}

}  // namespace kintsugi::chunkserver
