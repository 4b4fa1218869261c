#include "client/lib/write/file_writer.h"

#include <algorithm>

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kWriteFile{"client.write_file", {}, {"bytes"}};
constexpr sight::Site kReadSource{"client.read_source", {"bytes"}};

constexpr size_t kMaxFinishing = 2;    ///< stripes whose seal is awaited while the next is written
constexpr int kMaxStripeAttempts = 3;  ///< to write one stripe, each on other servers
constexpr size_t kMaxExtents = 30000;  ///< a commit fits a frame's 1 MiB header

}  // namespace

FileWriter::FileWriter(Resources& resources, Context context, std::string path, Source& source,
                       WriteOptions options)
    : resources_(resources),
      context_(context),
      path_(path),
      source_(source),
      options_(std::move(options)),
      size_(source.size()),
      upload_(resources, std::move(path), options_.policy, size_),
      changed_(resources.runtime),
      tasks_(resources.runtime) {}

asio::awaitable<Status> FileWriter::run(proto::Attributes& attributes) {
  sight::Module module(context_, kWriteFile);
  context_ = module.context();
  Status status = co_await write_all();
  // Background stripes end first, whatever happened: the commit names them, and an abort may not meet them half done.
  co_await tasks_.join();
  co_await upload_.join();
  if (status.ok()) status = failure_;
  module.output(0, static_cast<double>(written_));
  if (status.ok()) status = co_await commit(attributes);
  if (!status.ok()) co_await upload_.abort(context_);
  co_return module.finish(status);
}

asio::awaitable<Status> FileWriter::write_all() {
  if (size_ && *size_ == 0) co_return Status{};
  while (!at_end_ && failure_.ok()) {
    proto::AllocateStripeResponse allocation;
    KINTSUGI_CO_TRY(co_await upload_.take_allocation(context_, allocation));
    const uint64_t capacity = upload_.max_stripe_bytes();
    const uint64_t expected = size_ ? std::min(capacity, *size_ - written_) : capacity;
    KINTSUGI_CO_ASSIGN(RowBatch first, co_await read_batch(0, written_, expected));
    if (first.user_bytes() == 0) break;
    if (stripes_.size() == kMaxExtents) {
      co_return Status{Code::kLimitExceeded, fmt::format("a file may have at most {} stripes", kMaxExtents)};
    }
    if (!size_ || written_ + expected < *size_) upload_.allocate_ahead(context_);

    Stripe& stripe = add_stripe(std::move(allocation), expected);
    const Status filled = co_await fill(stripe, std::move(first), expected);
    if (!filled.ok() && (!can_seek() || filled.code() != Code::kUnavailable)) {
      co_await abort(stripe);
      co_return filled;
    }
    written_ += stripe.length;
    at_end_ = at_end_ || (size_ && written_ == *size_);
    stripe.last = at_end_;

    while (finishing_ >= kMaxFinishing)
      co_await changed_.wait();
    ++finishing_;
    tasks_.spawn(finish(&stripe));
  }
  co_return Status{};
}

FileWriter::Stripe& FileWriter::add_stripe(proto::AllocateStripeResponse allocation, uint64_t bytes) {
  Stripe& stripe = stripes_.emplace_back();
  stripe.file_offset = written_;
  stripe.length = bytes;  // a source that can seek must deliver so many
  stripe.stripe_id = allocation.stripe().stripe_id();
  stripe.writer =
      std::make_unique<StripeWriter>(resources_, context_, upload_.policy(), std::move(allocation), bytes);
  return stripe;
}

asio::awaitable<Result<RowBatch>> FileWriter::read_batch(uint64_t stripe_offset, uint64_t file_offset,
                                                         uint64_t at_most) {
  const erasure::Policy& policy = upload_.policy();
  const uint64_t bytes = std::min(RowBatch::full_bytes(policy), at_most);
  KINTSUGI_CO_ASSIGN(Lease lease, co_await resources_.memory.reserve(RowBatch::buffers_needed(policy, bytes),
                                                                     resources_.now() + kMemoryLimit));
  RowBatch batch(policy, stripe_offset / policy.k, bytes, std::move(lease), resources_.memory);
  sight::Module module(context_, kReadSource, {static_cast<double>(bytes)});
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

asio::awaitable<Status> FileWriter::fill(Stripe& stripe, RowBatch batch, uint64_t at_most) {
  uint64_t offset = 0;
  while (batch.user_bytes() > 0) {
    const uint64_t bytes = batch.user_bytes();
    KINTSUGI_CO_TRY(co_await stripe.writer->write(std::move(batch)));
    offset += bytes;
    report_progress(stripe, offset);
    // A pipe that ended must not be asked again. Of a source that can seek, at_end_ says nothing about this stripe.
    if (offset == at_most || (at_end_ && !can_seek())) break;
    KINTSUGI_CO_ASSIGN(batch, co_await read_batch(offset, stripe.file_offset + offset, at_most - offset));
  }
  stripe.length = offset;
  co_return Status{};
}

void FileWriter::report_progress(Stripe& stripe, uint64_t written) {
  if (written <= stripe.reported) return;  // the stripe is written again
  if (options_.progress) options_.progress(written - stripe.reported);
  stripe.reported = written;
}

asio::awaitable<void> FileWriter::abort(Stripe& stripe) {
  for (const uint64_t server : stripe.writer->failed_servers())
    upload_.exclude(server);
  co_await stripe.writer->abort();
}

asio::awaitable<Status> FileWriter::seal(Stripe& stripe) {
  if (stripe.writer->written() != stripe.length) {  // filling it broke off
    co_await abort(stripe);
    co_return Status{Code::kUnavailable, "too many of its servers failed"};
  }
  proto::SealedStripe sealed;
  const Status status = co_await stripe.writer->seal(sealed);
  for (const uint64_t server : stripe.writer->failed_servers())
    upload_.exclude(server);
  if (status.ok()) stripe.sealed = std::move(sealed);
  co_return status;
}

asio::awaitable<Status> FileWriter::write_again(Stripe& stripe) {
  proto::AllocateStripeResponse allocation;
  KINTSUGI_CO_TRY(co_await upload_.allocate(context_, allocation));
  KINTSUGI_CO_ASSIGN(RowBatch first, co_await read_batch(0, stripe.file_offset, stripe.length));
  stripe.stripe_id = allocation.stripe().stripe_id();
  stripe.writer = std::make_unique<StripeWriter>(resources_, context_, upload_.policy(),
                                                 std::move(allocation), stripe.length);
  const Status filled = co_await fill(stripe, std::move(first), stripe.length);
  if (filled.ok()) co_return co_await seal(stripe);
  co_await abort(stripe);
  co_return filled;
}

asio::awaitable<void> FileWriter::finish(Stripe* stripe) {
  Status status = co_await seal(*stripe);
  for (int attempt = 1; !status.ok() && can_seek() && attempt < kMaxStripeAttempts; ++attempt) {
    log::info("{}: writing a stripe again: {}", path_, status.to_string());
    status = co_await write_again(*stripe);
  }
  stripe->writer.reset();
  if (status.ok() && !stripe->last) {
    status = co_await upload_.seal(context_, std::move(*stripe->sealed));
    stripe->sealed.reset();
  }
  if (!status.ok() && failure_.ok()) failure_ = status;
  --finishing_;
  changed_.notify_all();
}

asio::awaitable<Status> FileWriter::commit(proto::Attributes& attributes) {
  proto::CommitFileRequest request;
  request.set_size(written_);
  request.set_mode(options_.mode);
  request.set_uid(options_.uid);
  request.set_gid(options_.gid);
  const auto now = resources_.runtime.clock.wall_now().time_since_epoch().count();
  request.set_modified_ns(options_.modified_ns != 0 ? options_.modified_ns : now);
  request.set_replace(options_.replace);
  for (Stripe& stripe : stripes_) {
    proto::Extent& extent = *request.add_extents();
    extent.set_file_offset(stripe.file_offset);
    extent.set_length(stripe.length);
    extent.set_stripe_id(stripe.stripe_id);
    if (stripe.sealed) *request.add_sealed() = std::move(*stripe.sealed);
  }
  return upload_.commit(context_, std::move(request), attributes);
}

}  // namespace kintsugi::client
