#include "client/lib/write/file_writer.h"

#include <algorithm>

#include "common/log/log.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kWriteFile{"client.write_file", {}, {"bytes"}};
constexpr sight::Site kReadSource{"client.read_source", {"bytes"}};

constexpr size_t kMaxFinishing = 2;    ///< stripes whose seal is awaited while the next is written
constexpr int kMaxStripeAttempts = 3;  ///< of one stripe, each on other servers
constexpr size_t kMaxExtents = 30000;  ///< a commit fits a frame's 1 MiB header
constexpr uint64_t kMaxTinyFile =
    erasure::kMaxCellBytes;  ///< larger files need no look at the policy beforehand

}  // namespace

FileWriter::FileWriter(Core& core, Context context, std::string path, Source& source, WriteOptions options)
    : core_(core),
      context_(context),
      path_(std::move(path)),
      source_(source),
      options_(std::move(options)),
      size_(source.size()),
      changed_(core.runtime),
      tasks_(core.runtime) {}

uint64_t FileWriter::stripe_bytes() const {
  return erasure::max_stripe_bytes(*policy_, max_chunk_bytes_);
}

asio::awaitable<Result<proto::Attributes>> FileWriter::run() {
  sight::Module module(context_, kWriteFile);
  context_ = module.context();
  Status status = co_await write_all();
  // Background stripes end first, whatever happened.
  while (finishing_ > 0 || allocating_)
    co_await changed_.wait();
  if (status.ok()) status = failure_;
  module.output(0, static_cast<double>(written_));
  if (!status.ok()) {
    co_await abandon();
    co_return module.finish(status);
  }
  auto committed = co_await commit();
  if (!committed) {
    module.set_code(committed.error().code());
    co_await abandon();
  }
  co_await tasks_.join();
  co_return committed;
}

asio::awaitable<Status> FileWriter::choose_policy() {
  file_policy_ = options_.policy;
  if (!size_ || *size_ == 0 || *size_ > kMaxTinyFile) co_return Status{};
  if (file_policy_.empty()) {
    proto::GetPolicyRequest request;
    const size_t slash = path_.rfind('/');
    request.set_path(slash == 0 || slash == std::string::npos ? "/" : path_.substr(0, slash));
    KINTSUGI_CO_ASSIGN(const auto answer, co_await core_.meta.call<proto::GetPolicyResponse>(
                                              context_, rpc::Method::kGetPolicy, request));
    file_policy_ = answer.policy();
  }
  KINTSUGI_CO_ASSIGN(erasure::Policy policy, erasure::Policy::parse(file_policy_));
  if (*size_ > policy.cell_bytes) co_return Status{};
  options_.policy = policy.as_copies().name();
  co_return Status{};
}

asio::awaitable<Status> FileWriter::write_all() {
  if (size_ && *size_ == 0) co_return Status{};
  KINTSUGI_CO_TRY(co_await choose_policy());
  while (!at_end_ && failure_.ok()) {
    KINTSUGI_CO_ASSIGN(proto::AllocateStripeResponse allocation, co_await take_allocation());
    const uint64_t capacity = stripe_bytes();
    const uint64_t expected = size_ ? std::min(capacity, *size_ - written_) : capacity;
    KINTSUGI_CO_ASSIGN(RowBatch first, co_await read_batch(0, written_, expected));
    if (first.user_bytes() == 0) break;
    if (stripes_.size() == kMaxExtents) {
      co_return Status{Code::kLimitExceeded, fmt::format("a file may have at most {} stripes", kMaxExtents)};
    }
    if (!size_ || written_ + expected < *size_) {
      allocating_ = true;
      tasks_.spawn(allocate_next());
    }

    Stripe& stripe = stripes_.emplace_back();
    stripe.file_offset = written_;
    stripe.length = expected;  // what a source that can seek must deliver
    stripe.stripe_id = allocation.stripe().stripe_id();
    stripe.writer =
        std::make_unique<StripeWriter>(core_, context_, *policy_, std::move(allocation), expected);
    Status filled = co_await fill(stripe, std::move(first), expected);
    if (!filled.ok() && (!can_seek() || filled.code() != Code::kUnavailable)) {
      note_failures(*stripe.writer);
      co_await stripe.writer->abort();
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

asio::awaitable<Result<RowBatch>> FileWriter::read_batch(uint64_t stripe_offset, uint64_t file_offset,
                                                         uint64_t at_most) {
  const uint64_t bytes = std::min(RowBatch::full_bytes(*policy_), at_most);
  KINTSUGI_CO_ASSIGN(Lease lease, co_await core_.memory.reserve(RowBatch::buffers_needed(*policy_, bytes),
                                                                core_.now() + kMemoryLimit));
  RowBatch batch(*policy_, stripe_offset / policy_->k, bytes, std::move(lease), core_.memory);
  sight::Module module(context_, kReadSource, {static_cast<double>(bytes)});
  const auto ranges = batch.user_ranges();
  auto read = co_await source_.read(file_offset, ranges);
  if (!read) co_return module.finish(read.error());
  if (*read < bytes) {
    if (can_seek()) co_return Status{Code::kConflict, "the source became shorter while it was read"};
    at_end_ = true;
    batch.shorten(*read);
  }
  co_return batch;
}

asio::awaitable<Status> FileWriter::fill(Stripe& stripe, RowBatch first, uint64_t stripe_bytes) {
  uint64_t offset = first.user_bytes();
  KINTSUGI_CO_TRY(co_await stripe.writer->write(std::move(first)));
  if (options_.progress) options_.progress(offset);
  while (offset < stripe_bytes && !at_end_) {
    KINTSUGI_CO_ASSIGN(RowBatch batch,
                       co_await read_batch(offset, stripe.file_offset + offset, stripe_bytes - offset));
    const uint64_t bytes = batch.user_bytes();
    if (bytes == 0) break;
    KINTSUGI_CO_TRY(co_await stripe.writer->write(std::move(batch)));
    offset += bytes;
    if (options_.progress) options_.progress(bytes);
  }
  stripe.length = offset;
  co_return Status{};
}

void FileWriter::note_failures(const StripeWriter& writer) {
  for (uint64_t server : writer.failed_servers()) {
    if (std::find(exclude_.begin(), exclude_.end(), server) == exclude_.end()) exclude_.push_back(server);
  }
}

asio::awaitable<Status> FileWriter::seal(Stripe& stripe) {
  if (stripe.writer->written() != stripe.length) {  // filling it broke off
    note_failures(*stripe.writer);
    co_await stripe.writer->abort();
    co_return Status{Code::kUnavailable, "too many of its servers failed"};
  }
  auto sealed = co_await stripe.writer->seal();
  note_failures(*stripe.writer);
  if (!sealed) co_return sealed.error();
  stripe.sealed = std::move(*sealed);
  co_return Status{};
}

asio::awaitable<Status> FileWriter::write_again(Stripe& stripe) {
  KINTSUGI_CO_ASSIGN(proto::AllocateStripeResponse allocation, co_await allocate());
  stripe.stripe_id = allocation.stripe().stripe_id();
  stripe.writer =
      std::make_unique<StripeWriter>(core_, context_, *policy_, std::move(allocation), stripe.length);
  uint64_t offset = 0;
  Status status;
  while (status.ok() && offset < stripe.length) {
    auto batch = co_await read_batch(offset, stripe.file_offset + offset, stripe.length - offset);
    if (!batch) {
      status = batch.error();
      break;
    }
    offset += batch->user_bytes();
    status = co_await stripe.writer->write(std::move(*batch));
  }
  if (status.ok()) co_return co_await seal(stripe);
  note_failures(*stripe.writer);
  co_await stripe.writer->abort();
  co_return status;
}

asio::awaitable<void> FileWriter::finish(Stripe* stripe) {
  Status status = co_await seal(*stripe);
  for (int attempt = 1; !status.ok() && can_seek() && attempt < kMaxStripeAttempts; ++attempt) {
    log::info("{}: writing a stripe again: {}", path_, status.to_string());
    status = co_await write_again(*stripe);
  }
  stripe->writer.reset();
  if (status.ok() && !stripe->last) {
    proto::SealStripeRequest request;
    request.set_upload_id(upload_id_);
    *request.mutable_sealed() = std::move(*stripe->sealed);
    stripe->sealed.reset();
    auto answer = co_await core_.meta.call<proto::Empty>(context_, rpc::Method::kSealStripe, request);
    if (!answer) status = answer.error();
  }
  if (!status.ok() && failure_.ok()) failure_ = status;
  --finishing_;
  changed_.notify_all();
}

}  // namespace kintsugi::client
