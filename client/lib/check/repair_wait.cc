#include "client/lib/check/repair_wait.h"

#include <map>

#include "client/lib/check/checked_chunk.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/backoff.h"
#include "erasure/code.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr uint32_t kHistory = 1000;  ///< records of the repair history that are searched

/// True when the whole stripe can be had from what the metaserver counts as available.
bool decodable(const proto::Stripe& stripe) {
  const auto policy = erasure::Policy::parse(stripe.policy());
  // Such a policy is not for this check to report.
  if (!policy || policy->chunks() != static_cast<uint32_t>(stripe.chunks_size())) return true;
  std::vector<uint32_t> available;
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    if (chunk.available()) available.push_back(chunk.index());
  }
  return erasure::Code::get(*policy)->decodable(available);
}

}  // namespace

void RepairWait::add(DamagedChunk chunk) {
  if (!known_.insert(chunk.id).second) return;
  if (chunks_.size() < kMaxChunks) {
    chunks_.push_back(std::move(chunk));
  } else {
    known_.erase(chunk.id);
    ++unlisted_;
  }
}

void RepairWait::report_to(DeepCheckReport& report) {
  report.damaged = std::move(chunks_);
  report.damaged_unlisted = unlisted_;
}

asio::awaitable<Status> RepairWait::wait(Context context, Duration patience,
                                         std::function<void()> on_settled) {
  TimePoint last = resources_.now();
  runtime::Backoff backoff(resources_.runtime.random, kFirstPause, kLastPause);
  while (true) {
    for (DamagedChunk& chunk : chunks_) {
      if (chunk.settled()) continue;
      KINTSUGI_CO_TRY(co_await look(context, chunk));
      if (!chunk.settled()) continue;
      ++settled_;
      last = resources_.now();
      backoff.reset();
      on_settled();
    }
    if (settled_ == chunks_.size()) co_return Status{};
    if (resources_.now() - last >= patience) co_return co_await explain(context);
    const sight::Wait wait(context, sight::WaitKind::kTimer);
    if (!co_await resources_.background.sleep_for(backoff.next()))
      co_return Status{Code::kCancelled, "the client is stopping"};
  }
}

asio::awaitable<Status> RepairWait::look(Context context, DamagedChunk& chunk) {
  const auto stripe = co_await look_up(resources_, context, chunk.id.stripe);
  if (!stripe && stripe.error().code() == Code::kNotFound) {
    chunk.mending = Mending::kGone;
    co_return Status{};
  }
  if (!stripe) co_return stripe.error();
  const auto index = static_cast<int>(chunk.id.index);
  if (index < stripe->chunks_size() && stripe->chunks(index).available()) {
    chunk.mending = Mending::kRepaired;
  } else if (!decodable(*stripe)) {
    chunk.mending = Mending::kTooFewLeft;
  }
  co_return Status{};
}

asio::awaitable<Status> RepairWait::explain(Context context) {
  proto::RepairHistoryRequest request;
  request.set_limit(kHistory);
  proto::RepairHistoryResponse history;
  KINTSUGI_CO_TRY(co_await resources_.meta.call(context, rpc::Method::kRepairHistory, request, history));
  std::map<ChunkId, std::string> failed;
  for (const proto::RepairRecord& record : history.records()) {  // the newest record comes first
    if (record.outcome() == proto::RepairRecord::FAILED)
      failed.try_emplace({StripeId{record.stripe_id()}, record.index()}, record.detail());
  }
  for (DamagedChunk& chunk : chunks_) {
    const auto found = failed.find(chunk.id);
    if (!chunk.settled() && found != failed.end()) chunk.obstacle = found->second;
  }
  co_return Status{};
}

}  // namespace kintsugi::client
