#include "client/lib/write/stripe_writer.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kWriteStripe{"client.write_stripe", {"chunks", "max_bytes"}};
constexpr sight::Site kEncodeRows{"client.encode_rows", {"bytes"}};
constexpr sight::Site kSealChunks{"client.seal_chunks", {"bytes"}, {"missing_chunks"}};

constexpr Duration kSilenceCheckInterval = 100ms;
constexpr size_t kMaxQueueSlices = 8;  ///< a slow server may be this many slices (of 1 MiB) behind

/// Slices that each sender may queue: two stripes are in flight at the seam between them, and a batch is being filled.
size_t queue_slices(const Resources& resources, const erasure::Policy& policy) {
  return std::clamp<size_t>(resources.memory.buffers() / (3 * policy.chunks()), 1, kMaxQueueSlices);
}

/// A write may lack all but one of the chunks that the stripe can lose.
uint8_t senders_needed(const erasure::Policy& policy) {
  return static_cast<uint8_t>(policy.chunks() - (policy.tolerated() > 0 ? policy.tolerated() - 1 : 0));
}

}  // namespace

StripeWriter::StripeWriter(Resources& resources, Context context, erasure::Policy policy,
                           proto::AllocateStripeResponse allocation, uint64_t max_bytes)
    : resources_(resources),
      policy_(policy),
      task_(context, kWriteStripe, {static_cast<double>(policy.chunks()), static_cast<double>(max_bytes)}),
      join_(task_.context(), sight::WaitKind::kJoin, 0, 0, senders_needed(policy)),
      code_(erasure::Code::get(policy)),
      allocation_(resources.runtime, resources.meta, std::move(allocation)),
      changed_(resources.runtime),
      block_crcs_(policy.chunks()),
      tasks_(resources.runtime) {
  for (uint32_t index = 0; index < policy.chunks(); ++index) {
    const ChunkSender::Chunk chunk{index, erasure::chunk_length(policy, max_bytes, index),
                                   queue_slices(resources, policy)};
    senders_.push_back(
        std::make_unique<ChunkSender>(resources, task_.context(), context, allocation_, chunk, changed_));
    tasks_.spawn(senders_.back()->run());
  }
  if (policy_.tolerated() >= 2) tasks_.spawn(watch_senders());
}

StripeWriter::~StripeWriter() {
  KINTSUGI_ASSERT(tasks_.running() == 0);
}

std::vector<uint32_t> StripeWriter::failed_chunks() const {
  std::vector<uint32_t> failed;
  for (uint32_t index = 0; index < senders_.size(); ++index) {
    if (senders_[index]->failed()) failed.push_back(index);
  }
  return failed;
}

Status StripeWriter::check_failures() const {
  const std::vector<uint32_t> failed = failed_chunks();
  if (code_->may_lack(failed)) return {};
  std::string reasons;
  for (const uint32_t index : failed) {
    const ChunkSender& sender = *senders_[index];
    if (sender.done()) reasons += (reasons.empty() ? "" : "; ") + sender.result().message();
  }
  return {Code::kUnavailable,
          fmt::format("stripe {}: {} of {} chunks could not be written: {}", allocation_.stripe().stripe_id(),
                      failed.size(), senders_.size(), reasons)};
}

asio::awaitable<Status> StripeWriter::write(const Context& context, RowBatch batch) {
  {
    sight::Compute module(context, kEncodeRows, {static_cast<double>(batch.user_bytes())});
    batch.compute_parity(*code_);
  }
  written_ += batch.user_bytes();
  for (uint32_t index = 0; index < senders_.size(); ++index) {
    std::vector<Slice> slices = batch.take(index);
    for (Slice& slice : slices) {
      block_crcs_[index].insert(block_crcs_[index].end(), slice.block_crcs.begin(), slice.block_crcs.end());
      co_await senders_[index]->push(context, std::move(slice));
    }
  }
  co_return check_failures();
}

bool StripeWriter::all_senders_done() const {
  return std::all_of(senders_.begin(), senders_.end(),
                     [](const std::unique_ptr<ChunkSender>& sender) { return sender->done(); });
}

asio::awaitable<void> StripeWriter::wait_for_senders(const Context& context) {
  const sight::Wait wait(context, sight::WaitKind::kSibling, 0, task_.context().trace.span_id);
  while (!all_senders_done())
    co_await changed_.wait();
  co_await tasks_.join();
}

asio::awaitable<void> StripeWriter::watch_senders() {
  while (!all_senders_done()) {
    co_await changed_.wait_until(resources_.now() + kSilenceCheckInterval);
    give_up_the_silent();
  }
}

void StripeWriter::give_up_the_silent() {
  Duration usual{};
  for (const auto& sender : senders_)
    usual = std::max(usual, sender->longest_wait());
  const TimePoint silent_since = resources_.now() - resources_.write_waits.silence(usual);
  const TimePoint suspect_since = resources_.now() - resources_.write_waits.silence_of_suspect(usual);
  std::vector<ChunkSender*> silent;
  std::vector<uint32_t> lacking;
  for (uint32_t index = 0; index < senders_.size(); ++index) {
    ChunkSender& sender = *senders_[index];
    const auto waiting = sender.waiting_since();
    // A server that another stripe has given up just now gets less time here.
    const bool suspect = resources_.health.avoid(allocation_.server(index));
    const bool is_silent =
        waiting && *waiting <= (suspect ? std::max(silent_since, suspect_since) : silent_since);
    if (is_silent) silent.push_back(&sender);
    if (is_silent || sender.failed()) lacking.push_back(index);
  }
  if (!code_->may_lack(lacking)) return;
  for (ChunkSender* sender : silent)
    sender->give_up();
}

asio::awaitable<Status> StripeWriter::seal(const Context& context, proto::SealedStripe& sealed) {
  sight::Module module(context, kSealChunks, {static_cast<double>(written_)});
  std::vector<uint32_t> crcs;
  for (uint32_t index = 0; index < senders_.size(); ++index) {
    const uint64_t length = erasure::chunk_length(policy_, written_, index);
    crcs.push_back(crc32c_of_blocks(block_crcs_[index], length));
    senders_[index]->end(length, crcs.back());
  }
  co_await wait_for_senders(module.context());
  KINTSUGI_CO_TRY(module.finish(check_failures()));
  Duration longest{};
  for (const auto& sender : senders_)
    longest = std::max(longest, sender->failed() ? Duration{} : sender->longest_wait());
  resources_.write_waits.record(longest);

  *sealed.mutable_stripe() = allocation_.stripe();
  sealed.mutable_stripe()->set_length(written_);
  sealed.set_ticket(allocation_.ticket());
  size_t missing = 0;
  for (uint32_t index = 0; index < senders_.size(); ++index) {
    proto::ChunkPlacement& chunk = *sealed.mutable_stripe()->mutable_chunks(static_cast<int>(index));
    chunk.set_length(erasure::chunk_length(policy_, written_, index));
    chunk.set_crc(crcs[index]);
    chunk.clear_capability();
    const bool failed = senders_[index]->failed();
    if (!failed && !senders_[index]->is_empty()) continue;
    missing += failed;
    chunk.set_server_id(0);
    chunk.clear_address();
  }
  module.output(0, static_cast<double>(missing));
  co_return Status{};
}

asio::awaitable<void> StripeWriter::abort(const Context& context) {
  for (const auto& sender : senders_)
    sender->abort();
  co_await wait_for_senders(context);
}

}  // namespace kintsugi::client
