#include "client/lib/dirty/flush_groups.h"

#include <algorithm>

#include "client/lib/leases/repeated_calls.h"

namespace kintsugi::client {
namespace {

uint64_t extents_of(const proto::WriteExtentsRequest& request) {
  uint64_t extents = static_cast<uint64_t>(request.extents_size());
  for (const proto::FileExtents& file : request.more())
    extents += static_cast<uint64_t>(file.extents_size());
  return extents;
}

constexpr sight::Site kFlush{"client.flush_files", {"files"}};
constexpr sight::Site kFlushInline{"client.flush_inline", {"files"}};

}  // namespace

FlushGroups::FlushGroups(Resources& resources, InodeCalls& calls, runtime::TaskGroup& tasks, Context context)
    : resources_(resources), calls_(calls), tasks_(tasks), context_(context), done_(resources.runtime) {}

asio::awaitable<Result<proto::Attributes>> FlushGroups::write(Context context, UploadMember member) {
  const auto waiting = std::make_shared<Waiting>(std::move(member));
  queue_.push_back(waiting);
  if (running_ < kAtOnce) {
    ++running_;
    tasks_.spawn(run());
  }
  while (!waiting->result) {
    const auto kind = waiting->span != 0 ? runtime::WaitKind::kSibling : runtime::WaitKind::kResource;
    const uint64_t turns = waiting->span != 0 ? 0 : runtime::named_target(context, "groups of files");
    const runtime::Wait wait(context, kind, turns, waiting->span);
    co_await done_.wait();
  }
  co_return std::move(*waiting->result);
}

asio::awaitable<void> FlushGroups::run() {
  while (!queue_.empty()) {
    const Group group = next_group();
    co_await write_group(group);
    done_.notify_all();
  }
  --running_;
}

FlushGroups::Group FlushGroups::next_group() {
  Group group;
  uint64_t bytes = 0;
  size_t pieces = 0;
  const std::string policy = queue_.front()->member.policy;
  for (auto next = queue_.begin(); next != queue_.end() && group.size() < kMaxFiles;) {
    const UploadMember& member = (*next)->member;
    bytes += member.ranges->bytes();
    pieces += member.ranges->buffers();
    const bool alone = policy.empty() || (*next)->alone || (!group.empty() && group.front()->alone);
    if (!group.empty() && (alone || bytes > kMaxBytes || pieces > kMaxPieces)) break;
    if (member.policy != policy) {
      bytes -= member.ranges->bytes();
      pieces -= member.ranges->buffers();
      ++next;
      continue;
    }
    group.push_back(*next);
    next = queue_.erase(next);
  }
  return group;
}

std::unique_ptr<Upload> FlushGroups::take_prepared(const std::vector<UploadMember>& members) {
  const std::string& name = members.front().policy;
  const auto policy = erasure::Policy::parse(name);
  if (!policy || tasks_.stopping()) return nullptr;
  uint64_t bytes = 0;
  for (const UploadMember& member : members)
    bytes += member.ranges->bytes();
  if (bytes > policy->cell_bytes) return nullptr;
  std::unique_ptr<Upload> taken;
  if (prepared_ && prepared_->policy == name) taken = std::move(prepared_->upload);
  if (!prepared_ || taken) {
    // While this one is written the next stripe is allocated: who syncs often does not wait for that.
    prepared_.emplace(name, resources_.now(),
                      GroupUpload::prepare(resources_, context_, *policy, members.front().inode));
    if (!std::exchange(dropping_, true)) tasks_.spawn(drop_unused());
  }
  return taken;
}

asio::awaitable<void> FlushGroups::drop_unused() {
  while (prepared_) {
    const bool slept = co_await tasks_.sleep_for(kPreparedFor);
    if (!prepared_ || (slept && resources_.now() - prepared_->since < kPreparedFor)) continue;
    const std::unique_ptr<Upload> unused = std::move(prepared_->upload);
    prepared_.reset();
    co_await unused->join();
    co_await unused->abort(context_);
  }
  dropping_ = false;
}

void FlushGroups::take(const Group& group, const std::vector<size_t>& told,
                       const Result<proto::WriteExtentsResponse>& written) {
  const auto all = [&](const Status& status) {
    for (const auto& waiting : group)
      if (!waiting->result) waiting->result = status;
  };
  if (!written) {
    // A quota that one file would exceed must not keep the others from being written.
    const bool one_of_them = group.size() > 1 && is_refused(written.error());
    for (const auto& waiting : group) {
      if (one_of_them) waiting->alone = true;
      if (one_of_them) queue_.push_back(waiting);
    }
    if (!one_of_them) all(written.error());
    return;
  }
  const auto take_one = [&](size_t i, int code, const proto::Attributes& attributes) {
    auto& result = group[told[i]]->result;
    if (code == static_cast<int>(Code::kOk)) {
      result = attributes;
    } else if (code == static_cast<int>(Code::kLeaseLost)) {
      result = Status{Code::kLeaseLost, "the file was given to other clients"};
    } else {
      result = Status{Code::kStale, "the file is gone"};
    }
  };
  take_one(0, written->code(), written->attributes());
  for (int i = 0; i < written->more_size() && static_cast<size_t>(i) + 1 < told.size(); ++i)
    take_one(static_cast<size_t>(i) + 1, written->more(i).code(), written->more(i).attributes());
  all({Code::kCancelled, "given up"});
}

asio::awaitable<bool> FlushGroups::write_inline(Context context, const Group& group,
                                                const std::vector<UploadMember>& members) {
  if (resources_.now() < inline_again_ || !fits_inline(members)) co_return false;
  std::vector<size_t> told;
  proto::WriteExtentsRequest request = inline_request(members, told);
  if (told.empty()) co_return false;
  const sight::Module module(context, kFlushInline, {static_cast<double>(members.size())});
  const uint64_t extents = extents_of(request);
  const auto written = co_await calls_.write_extents(module.context(), std::move(request));
  if (!written && written.error().code() == Code::kLimitExceeded) {
    inline_again_ = resources_.now() + kAllToStripes;
    co_return false;
  }
  ++counts_.inline_groups;
  counts_.extents += extents;
  take(group, told, written);
  co_return true;
}

asio::awaitable<void> FlushGroups::write_group(const Group& group) {
  const sight::Task task(context_, kFlush, {static_cast<double>(group.size())});
  std::vector<UploadMember> members;
  for (const auto& waiting : group) {
    waiting->span = task.context().trace.span_id;
    members.push_back(waiting->member);
  }
  done_.notify_all();  // waiting operations now wait for this region
  ++counts_.groups;
  if (co_await write_inline(task.context(), group, members)) co_return;
  std::unique_ptr<Upload> prepared = take_prepared(members);
  GroupUpload upload(resources_, task.context(), std::move(members), std::move(prepared));
  Status status = co_await upload.run();
  std::vector<size_t> told;
  proto::WriteExtentsRequest request;
  if (status.ok()) {
    request = upload.request(told);
    if (told.empty()) status = {Code::kCancelled, "given up"};
  }
  if (!status.ok()) {
    co_await upload.abort();
    for (const auto& waiting : group)
      waiting->result = status;
    co_return;
  }
  counts_.stripes += upload.stripes();
  counts_.extents += extents_of(request);
  const auto written = co_await calls_.write_extents(task.context(), std::move(request));
  // A call without an answer may have been carried out, and then its stripes are in use.
  if (!written && is_refused(written.error())) co_await upload.abort();
  take(group, told, written);
}

}  // namespace kintsugi::client
