#include "client/lib/write/upload.h"

#include <algorithm>

#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kAllocateAhead{"client.allocate_ahead"};
constexpr sight::Site kAllocateStripe{"client.allocate_stripe"};
constexpr sight::Site kCommitFile{"client.commit_file", {"stripes"}};
constexpr Duration kAbortLimit = 3s;
constexpr Duration kKeepInterval = 10s;  // a quarter of the time after which the metaserver aborts an upload
constexpr Duration kKeepLimit = 5s;
constexpr uint64_t kEmptyFile = 1ull << 63;  ///< bit set in the upload id of a file without stripes

}  // namespace

asio::awaitable<Status> Upload::allocate(Context context, proto::AllocateStripeResponse& allocation) {
  sight::Module module(context, kAllocateStripe);
  proto::AllocateStripeRequest request;
  request.set_upload_id(upload_id_);
  // Once there is an upload, its policy says all: the file that it began for may be gone.
  if (upload_id_ == 0 || stripe_policy_.empty()) {
    request.set_path(file_.path);
    request.set_inode(file_.inode);
  }
  request.set_policy(stripe_policy_);
  request.set_file_bytes(file_bytes_);
  resources_.sign(request);
  for (const uint64_t server : excluded_)
    request.add_exclude(server);
  for (const ServerId server : resources_.health.avoided())
    request.add_exclude(server.value);
  Status status =
      co_await resources_.meta.call(module.context(), rpc::Method::kAllocateStripe, request, allocation);
  if (!status.ok() && request.exclude_size() > 0) {  // better a server that failed once than none
    request.clear_exclude();
    status =
        co_await resources_.meta.call(module.context(), rpc::Method::kAllocateStripe, request, allocation);
  }
  if (status.ok()) status = adopt(allocation);
  co_return module.finish(status);
}

Status Upload::adopt(const proto::AllocateStripeResponse& allocation) {
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(allocation.stripe().policy()));
  if (allocation.stripe().chunks_size() != static_cast<int>(policy.chunks()) ||
      allocation.max_chunk_bytes() == 0 || (policy_ && !(*policy_ == policy)))
    return {Code::kInternal, "the metaserver's answer to an allocation is not valid"};
  policy_ = policy;
  max_stripe_bytes_ = erasure::max_stripe_bytes(policy, allocation.max_chunk_bytes());
  if (std::exchange(upload_id_, allocation.upload_id()) == 0) keeper_.spawn(keep_alive());
  // The policy of later stripes stays that of the first, even if the directory's changes meanwhile.
  stripe_policy_ = allocation.stripe().policy();
  if (file_policy_.empty()) file_policy_ = allocation.file_policy();
  return {};
}

void Upload::allocate_ahead(Context context) {
  ahead_span_ = 0;
  tasks_.spawn(run_ahead(context));
}

asio::awaitable<void> Upload::run_ahead(Context context) {
  const sight::Task task(context, kAllocateAhead);
  ahead_span_ = task.context().trace.span_id;
  Ahead ahead;
  ahead.status = co_await allocate(task.context(), ahead.allocation);
  ahead_ = std::move(ahead);
}

asio::awaitable<Status> Upload::take_allocation(Context context, proto::AllocateStripeResponse& allocation) {
  {
    // A task that has not begun yet is found as a child.
    const auto kind = ahead_span_ != 0 ? sight::WaitKind::kSibling : sight::WaitKind::kJoin;
    const sight::Wait wait(context, kind, 0, ahead_span_);
    co_await tasks_.join();
  }
  if (!ahead_) co_return co_await allocate(context, allocation);
  const Status status = std::move(ahead_->status);
  allocation = std::move(ahead_->allocation);
  ahead_.reset();
  co_return status;
}

asio::awaitable<void> Upload::keep_alive() {
  while (co_await keeper_.sleep_for(kKeepInterval)) {
    proto::KeepUploadRequest request;
    request.set_upload_id(upload_id_);
    proto::Empty nothing;
    // An upload that has ended shows at its next seal or commit, with the reason.
    (void)co_await resources_.meta.call_once(Context{}, rpc::Method::kKeepUpload, request, nothing,
                                             kKeepLimit);
  }
}

asio::awaitable<void> Upload::join() {
  keeper_.request_stop();
  co_await tasks_.join();
  co_await keeper_.join();
}

void Upload::exclude(uint64_t server) {
  if (std::ranges::find(excluded_, server) == excluded_.end()) excluded_.push_back(server);
}

asio::awaitable<Status> Upload::seal(Context context, proto::SealedStripe sealed) {
  proto::SealStripeRequest request;
  request.set_upload_id(upload_id_);
  *request.mutable_sealed() = std::move(sealed);
  proto::Empty nothing;
  co_return co_await resources_.meta.call(context, rpc::Method::kSealStripe, request, nothing);
}

asio::awaitable<Status> Upload::commit(Context context, proto::CommitFileRequest request,
                                       proto::Attributes& attributes) {
  sight::Module module(context, kCommitFile, {static_cast<double>(request.extents_size())});
  // A commit repeats safely under its upload's id, since the metaserver remembers which uploads it committed. That of
  // an empty file gets an id that no allocation has.
  request.set_upload_id(request.extents().empty() ? resources_.runtime.random.next() | kEmptyFile
                                                  : upload_id_);
  request.set_path(file_.path);
  request.set_policy(file_policy_);
  request.mutable_change()->set_session(request.upload_id());
  resources_.sign(request);
  proto::CommitFileResponse answer;
  const Status status =
      co_await resources_.meta.call(module.context(), rpc::Method::kCommitFile, request, answer);
  if (status.ok()) attributes = std::move(*answer.mutable_attributes());
  co_return module.finish(status);
}

asio::awaitable<void> Upload::abort(Context context) {
  if (upload_id_ == 0) co_return;
  proto::AbortUploadRequest request;
  request.set_upload_id(upload_id_);
  proto::Empty nothing;
  // On a connection of its own: a client that was cancelled has no other any more.
  rpc::Client farewell(resources_.runtime, resources_.secret);
  const Context limited = context.with_deadline(resources_.now() + kAbortLimit);
  (void)co_await farewell.call(limited, resources_.options.metaserver, rpc::Method::kAbortUpload, request,
                               nothing);
  co_await farewell.stop();
}

}  // namespace kintsugi::client
