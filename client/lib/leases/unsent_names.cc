#include "client/lib/leases/unsent_names.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/proto/types.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kWriteNames{"client.write_names"};

/// Returns true if the metaserver refused names so that the same call can never succeed.
bool is_final(const Status& refused) {
  return refused.code() == Code::kAccessDenied || refused.code() == Code::kInvalidArgument;
}

}  // namespace

UnsentNames::UnsentNames(Resources& resources, Session& session, RepeatedCalls& calls,
                         runtime::TaskGroup& tasks, std::span<std::byte> region)
    : resources_(resources),
      session_(session),
      calls_(calls),
      tasks_(tasks),
      log_(region),
      appended_(log_.size()),
      number_(uint64_t{session.numbers().generation()} << 32),
      sent_(resources.runtime) {
  // A process before this one may have left changes.
  for (size_t i = 0; i < log_.size(); ++i)
    ++changes_of_[log_.at(i).inode()];
}

bool UnsentNames::has_attributes_of(uint64_t inode) const {
  if (!changes_of_.contains(inode)) return false;
  for (size_t i = 0; i < log_.size(); ++i)
    if (log_.at(i).inode() == inode && log_.at(i).has_attributes()) return true;
  return false;
}

bool UnsentNames::append(proto::NameChange change) {
  const uint64_t inode = change.inode();
  if (!log_.append(std::move(change))) {
    start_flush();
    return false;
  }
  ++changes_of_[inode];
  ++appended_;
  if (!waits_since_) waits_since_ = resources_.now();
  if (log_.size() >= kBeginAt) start_flush();
  return true;
}

void UnsentNames::start_flush() {
  if (log_.empty() || tasks_.stopping() || std::exchange(in_background_, true)) return;
  tasks_.spawn(flush_in_background());
}

void UnsentNames::tick(Duration at_most) {
  if (waits_since_ && resources_.now() - *waits_since_ >= at_most) start_flush();
}

asio::awaitable<void> UnsentNames::flush_in_background() {
  const sight::Task task(resources_.context(), kWriteNames);
  const Status status = co_await flush(task.context());
  in_background_ = false;
  if (!status.ok()) log::debug("names are written later: {}", status.to_string());
}

asio::awaitable<Status> UnsentNames::flush(Context context) {
  const uint64_t last = appended_;
  while (dropped_ < last) {
    if (sending_) {
      const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, sending_span_);
      if (!co_await sent_.wait_until(context.deadline))
        co_return Status{Code::kDeadlineExceeded, "names that come before are not written yet"};
      continue;
    }
    sending_ = true;
    sending_span_ = context.trace.span_id;
    const Status status = co_await send_some(context);
    sending_ = false;
    sent_.notify_all();
    if (!status.ok()) co_return status;
  }
  co_return Status{};
}

size_t UnsentNames::next_count() const {
  const size_t most = std::min(log_.size(), kAtOnce);
  size_t count = 0;
  for (size_t bytes = 0; count < most; ++count) {
    bytes += log_.bytes_at(count);
    if (count > 0 && bytes > kAtOnceBytes) break;
  }
  return count;
}

asio::awaitable<Status> UnsentNames::send_some(Context context) {
  proto::WriteNamesRequest request;
  fill(request, next_count());
  proto::WriteNamesResponse answer;
  const Status status = co_await send(context, request, answer);
  if (is_final(status)) {
    log::error("{} changes of names are lost: {}", request.changes_size(), status.to_string());
    answer.clear_changes();
    for (int i = 0; i < request.changes_size(); ++i)
      answer.add_changes()->set_code(static_cast<int>(status.code()));
  } else {
    KINTSUGI_CO_TRY(status);
  }
  co_return take(request, answer);
}

asio::awaitable<Status> UnsentNames::send(Context context, const proto::WriteNamesRequest& request,
                                          proto::WriteNamesResponse& answer) {
  const Status status = co_await calls_.call(context, rpc::Method::kWriteNames, request, answer);
  if (status.code() != Code::kPermissionDenied) co_return status;
  // A token that has ended is refused whatever it asks for, until another one takes its place.
  const proto::Empty ping;
  proto::Empty pong;
  KINTSUGI_CO_TRY(co_await calls_.call(context, rpc::Method::kPing, ping, pong));
  // It is good, or that has just happened.
  const Status again = co_await calls_.call(context, rpc::Method::kWriteNames, request, answer);
  if (again.code() != Code::kPermissionDenied) co_return again;
  co_return Status{Code::kAccessDenied, again.message()};
}

bool UnsentNames::send_along(const Context& context, proto::WriteNamesRequest& request) {
  if (sending_ || log_.empty() || !is_little()) return false;
  sending_ = true;
  sending_span_ = context.trace.span_id;
  fill(request, log_.size());
  return true;
}

void UnsentNames::sent_along(const proto::WriteNamesRequest& request,
                             const proto::WriteNamesResponse* answer) {
  if (answer) {
    const Status taken = take(request, *answer);
    if (!taken.ok()) log::warning("names are written again: {}", taken.to_string());
  }
  sending_ = false;
  sent_.notify_all();
}

void UnsentNames::fill(proto::WriteNamesRequest& request, size_t count) {
  request.set_session(session_.id());
  request.set_number(++number_);
  for (size_t i = 0; i < count; ++i) {
    proto::NameChange& change = *request.add_changes();
    change = log_.at(i);
    if (!change.has_make()) continue;
    if (session_.held().is_held(change.inode())) change.mutable_make()->set_hold_for(session_.id());
    if (!session_.leases().has(change.inode())) change.mutable_make()->set_lease(false);
  }
}

Status UnsentNames::take(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse& answer) {
  if (answer.changes_size() != request.changes_size())
    return {Code::kCorrupt, "the metaserver answered something else than it was asked"};
  const auto count = static_cast<size_t>(request.changes_size());
  log_.drop(count);
  dropped_ += count;
  waits_since_.reset();
  if (!log_.empty()) waits_since_ = resources_.now();
  for (int i = 0; i < request.changes_size(); ++i) {
    const auto left = changes_of_.find(request.changes(i).inode());
    const bool last = --left->second == 0;
    if (last) changes_of_.erase(left);
    hearer_->carried_out(request.changes(i), answer.changes(i), last);
  }
  return {};
}

}  // namespace kintsugi::client
