#include "client/lib/write/striped_writer.h"

#include <algorithm>

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kFinishStripe{"client.finish_stripe", {"bytes"}};
constexpr sight::Site kReadSource{"client.read_source", {"bytes"}};

constexpr size_t kMaxFinishing = 2;    ///< stripes that may wait for their seal while the next one is written
constexpr int kMaxStripeAttempts = 3;  ///< attempts to write one stripe, each on other servers
constexpr size_t kMaxExtents = 30000;  ///< a commit with so many extents fits into a frame's 1 MiB header

}  // namespace

StripedWriter::StripedWriter(Resources& resources, Context context, Upload& upload, Source& source,
                             std::string name, Progress progress)
    : resources_(resources),
      context_(context),
      upload_(upload),
      source_(source),
      name_(std::move(name)),
      progress_(std::move(progress)),
      size_(source.size()),
      changed_(resources.runtime),
      tasks_(resources.runtime) {}

asio::awaitable<Status> StripedWriter::run() {
  Status status = co_await write_all();
  const sight::Wait wait(context_, sight::WaitKind::kJoin);
  // Background stripes end first, whatever happened: the commit names them, and an abort may not meet them half done.
  co_await tasks_.join();
  co_await upload_.join();
  co_return status.ok() ? failure_ : status;
}

asio::awaitable<Status> StripedWriter::write_all() {
  if (size_ && *size_ == 0 && !has_grown()) co_return Status{};
  while (!at_end_ && failure_.ok()) {
    proto::AllocateStripeResponse allocation;
    KINTSUGI_CO_TRY(co_await upload_.take_allocation(context_, allocation));
    const uint64_t capacity = upload_.max_stripe_bytes();
    const uint64_t expected = size_ ? std::min(capacity, *size_ - written_) : capacity;
    KINTSUGI_CO_ASSIGN(RowBatch first, co_await read_batch(context_, 0, written_, expected));
    if (first.user_bytes() == 0) break;
    if (stripes_.size() == kMaxExtents) {
      co_return Status{Code::kLimitExceeded, fmt::format("a file may have at most {} stripes", kMaxExtents)};
    }
    if (!size_ || written_ + expected < *size_) upload_.allocate_ahead(context_);

    Stripe& stripe = add_stripe(std::move(allocation), expected);
    const Status filled = co_await fill(context_, stripe, std::move(first), expected);
    if (!filled.ok() && (!can_seek() || filled.code() != Code::kUnavailable)) {
      co_await abort(context_, stripe);
      co_return filled;
    }
    written_ += stripe.length;
    at_end_ = at_end_ || (size_ && written_ == *size_ && !has_grown());
    stripe.last = at_end_;

    while (finishing_ >= kMaxFinishing) {
      const sight::Wait wait(context_, sight::WaitKind::kJoin, 0, 0, 1);
      co_await changed_.wait();
    }
    ++finishing_;
    tasks_.spawn(finish(&stripe));
  }
  co_return Status{};
}

bool StripedWriter::has_grown() {
  const std::optional<uint64_t> now = source_.size();
  if (!now || *now <= *size_) return false;
  size_ = now;
  return true;
}

StripedWriter::Stripe& StripedWriter::add_stripe(proto::AllocateStripeResponse allocation, uint64_t bytes) {
  Stripe& stripe = stripes_.emplace_back();
  stripe.file_offset = written_;
  stripe.length = bytes;  // a source that can seek must deliver all of its bytes
  stripe.stripe_id = allocation.stripe().stripe_id();
  stripe.writer =
      std::make_unique<StripeWriter>(resources_, context_, upload_.policy(), std::move(allocation), bytes);
  return stripe;
}

asio::awaitable<Result<RowBatch>> StripedWriter::read_batch(Context context, uint64_t stripe_offset,
                                                            uint64_t file_offset, uint64_t at_most) {
  const erasure::Policy& policy = upload_.policy();
  const uint64_t bytes = std::min(RowBatch::full_bytes(policy), at_most);
  sight::Wait wait(context, sight::WaitKind::kResource, runtime::named_target(context, "memory"));
  KINTSUGI_CO_ASSIGN(Lease lease, co_await resources_.memory.reserve(RowBatch::buffers_needed(policy, bytes),
                                                                     resources_.now() + kMemoryLimit));
  wait.stop();
  RowBatch batch(policy, stripe_offset / policy.k, bytes, std::move(lease), resources_.memory);
  sight::Module module(context, kReadSource, {static_cast<double>(bytes)});
  const auto ranges = batch.user_ranges();
  const auto read = co_await source_.read(file_offset, ranges);
  if (!read) co_return module.finish(read.error());
  if (*read < bytes) {
    if (can_seek()) co_return Status{Code::kConflict, "the source became shorter while it was read"};
    at_end_ = true;
    batch.shorten(*read);
  }
  co_return batch;
}

asio::awaitable<Status> StripedWriter::fill(Context context, Stripe& stripe, RowBatch batch,
                                            uint64_t at_most) {
  uint64_t offset = 0;
  while (batch.user_bytes() > 0) {
    const uint64_t bytes = batch.user_bytes();
    KINTSUGI_CO_TRY(co_await stripe.writer->write(context, std::move(batch)));
    offset += bytes;
    runtime::advance(context, bytes);
    report_progress(stripe, offset);
    // A pipe that ended must not be asked again. Of a source that can seek, at_end_ says nothing about this stripe.
    if (offset == at_most || (at_end_ && !can_seek())) break;
    KINTSUGI_CO_ASSIGN(batch,
                       co_await read_batch(context, offset, stripe.file_offset + offset, at_most - offset));
  }
  stripe.length = offset;
  co_return Status{};
}

void StripedWriter::report_progress(Stripe& stripe, uint64_t written) {
  if (written <= stripe.reported) return;  // the stripe is being written again
  if (progress_) progress_(written - stripe.reported);
  stripe.reported = written;
}

asio::awaitable<void> StripedWriter::abort(Context context, Stripe& stripe) {
  for (const uint64_t server : stripe.writer->failed_servers())
    upload_.exclude(server);
  co_await stripe.writer->abort(context);
}

asio::awaitable<Status> StripedWriter::seal(Context context, Stripe& stripe) {
  if (stripe.writer->written() != stripe.length) {  // the source failed in the middle of the stripe
    co_await abort(context, stripe);
    co_return Status{Code::kUnavailable, "too many of its servers failed"};
  }
  proto::SealedStripe sealed;
  const Status status = co_await stripe.writer->seal(context, sealed);
  for (const uint64_t server : stripe.writer->failed_servers())
    upload_.exclude(server);
  if (status.ok()) stripe.sealed = std::move(sealed);
  co_return status;
}

asio::awaitable<Status> StripedWriter::write_again(Context context, Stripe& stripe) {
  proto::AllocateStripeResponse allocation;
  KINTSUGI_CO_TRY(co_await upload_.allocate(context, allocation));
  KINTSUGI_CO_ASSIGN(RowBatch first, co_await read_batch(context, 0, stripe.file_offset, stripe.length));
  stripe.stripe_id = allocation.stripe().stripe_id();
  stripe.writer = std::make_unique<StripeWriter>(resources_, context, upload_.policy(), std::move(allocation),
                                                 stripe.length);
  const Status filled = co_await fill(context, stripe, std::move(first), stripe.length);
  if (filled.ok()) co_return co_await seal(context, stripe);
  co_await abort(context, stripe);
  co_return filled;
}

asio::awaitable<void> StripedWriter::finish(Stripe* stripe) {
  sight::Task task(context_, kFinishStripe, {static_cast<double>(stripe->length)});
  Status status = co_await seal(task.context(), *stripe);
  for (int attempt = 1; !status.ok() && can_seek() && attempt < kMaxStripeAttempts; ++attempt) {
    log::info("{}: writing a stripe again: {}", name_, status.to_string());
    status = co_await write_again(task.context(), *stripe);
  }
  stripe->writer.reset();
  if (status.ok() && !stripe->last) {
    status = co_await upload_.seal(task.context(), std::move(*stripe->sealed));
    stripe->sealed.reset();
  }
  task.set_code(status.code());
  if (!status.ok() && failure_.ok()) failure_ = status;
  --finishing_;
  changed_.notify_all();
}

void StripedWriter::add_extents(google::protobuf::RepeatedPtrField<proto::Extent>& extents) const {
  for (const Stripe& stripe : stripes_) {
    proto::Extent& extent = *extents.Add();
    extent.set_file_offset(stripe.file_offset);
    extent.set_length(stripe.length);
    extent.set_stripe_id(stripe.stripe_id);
  }
}

void StripedWriter::take_sealed(google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed) {
  for (Stripe& stripe : stripes_) {
    if (stripe.sealed) *sealed.Add() = std::move(*stripe.sealed);
    stripe.sealed.reset();
  }
}

}  // namespace kintsugi::client
