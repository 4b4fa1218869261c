// FileWriter's conversation with the metaserver: allocation, commit, abandonment.
#include <algorithm>

#include "client/lib/write/file_writer.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kAllocateStripe{"client.allocate_stripe"};
constexpr sight::Site kCommitFile{"client.commit_file", {"stripes"}};
constexpr Duration kAbortLimit = 3s;
constexpr uint64_t kEmptyFile = 1ull << 63;  ///< in the upload id of a file without stripes

}  // namespace

asio::awaitable<Result<proto::AllocateStripeResponse>> FileWriter::allocate() {
  sight::Module module(context_, kAllocateStripe);
  proto::AllocateStripeRequest request;
  request.set_upload_id(upload_id_);
  request.set_path(path_);
  request.set_policy(options_.policy);
  for (uint64_t server : exclude_)
    request.add_exclude(server);
  for (ServerId server : core_.health.avoided())
    request.add_exclude(server.value);
  auto answer = co_await core_.meta.call<proto::AllocateStripeResponse>(
      module.context(), rpc::Method::kAllocateStripe, request);
  if (!answer && request.exclude_size() > 0) {  // a server that failed once is better than none
    request.clear_exclude();
    answer = co_await core_.meta.call<proto::AllocateStripeResponse>(module.context(),
                                                                     rpc::Method::kAllocateStripe, request);
  }
  if (!answer) co_return module.finish(answer.error());
  KINTSUGI_CO_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(answer->stripe().policy()));
  if (answer->stripe().chunks_size() != static_cast<int>(policy.chunks()) || answer->max_chunk_bytes() == 0 ||
      (policy_ && !(*policy_ == policy))) {
    co_return module.finish(Status{Code::kInternal, "the metaserver's allocation makes no sense"});
  }
  policy_ = policy;
  max_chunk_bytes_ = answer->max_chunk_bytes();
  upload_id_ = answer->upload_id();
  // The policy of later stripes stays that of the first, even if the directory's changes meanwhile.
  options_.policy = answer->stripe().policy();
  if (file_policy_.empty()) file_policy_ = options_.policy;
  co_return answer;
}

asio::awaitable<void> FileWriter::allocate_next() {
  allocated_ = co_await allocate();
  allocating_ = false;
  changed_.notify_all();
}

asio::awaitable<Result<proto::AllocateStripeResponse>> FileWriter::take_allocation() {
  while (allocating_)
    co_await changed_.wait();
  if (!allocated_) co_return co_await allocate();
  Result<proto::AllocateStripeResponse> taken = std::move(*allocated_);
  allocated_.reset();
  co_return taken;
}

asio::awaitable<Result<proto::Attributes>> FileWriter::commit() {
  sight::Module module(context_, kCommitFile, {static_cast<double>(stripes_.size())});
  proto::CommitFileRequest request;
  // A commit repeats safely under its upload's id. That of an empty file gets one that no allocation has.
  request.set_upload_id(stripes_.empty() ? core_.runtime.random.next() | kEmptyFile : upload_id_);
  request.set_path(path_);
  request.set_size(written_);
  request.set_mode(options_.mode);
  request.set_uid(options_.uid);
  request.set_gid(options_.gid);
  const auto now = core_.runtime.clock.wall_now().time_since_epoch().count();
  request.set_modified_ns(options_.modified_ns != 0 ? options_.modified_ns : now);
  request.set_replace(options_.replace);
  request.set_policy(file_policy_);
  for (Stripe& stripe : stripes_) {
    proto::Extent& extent = *request.add_extents();
    extent.set_file_offset(stripe.file_offset);
    extent.set_length(stripe.length);
    extent.set_stripe_id(stripe.stripe_id);
    if (stripe.sealed) *request.add_sealed() = *stripe.sealed;
  }
  auto answer = co_await core_.meta.call<proto::CommitFileResponse>(
      module.context(), rpc::Method::kCommitFile, request, Repeat::kAllowed);
  if (!answer) co_return module.finish(answer.error());
  co_return answer->attributes();
}

asio::awaitable<void> FileWriter::abandon() {
  while (finishing_ > 0 || allocating_)
    co_await changed_.wait();
  co_await tasks_.join();
  if (upload_id_ == 0) co_return;
  proto::AbortUploadRequest request;
  request.set_upload_id(upload_id_);
  const std::string bytes = request.SerializeAsString();
  // Only a courtesy: the metaserver collects uploads that nobody finishes.
  const Context limited = context_.with_deadline(core_.now() + kAbortLimit);
  (void)co_await core_.rpc.call_raw(limited, core_.options.metaserver, rpc::Method::kAbortUpload, bytes);
}

}  // namespace kintsugi::client
