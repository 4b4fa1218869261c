// Events, the scheduler and what people ask about. How one repair runs is in repair_attempt.cc.
#include "repair_manager/repair_manager.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "erasure/policy.h"

namespace kintsugi::repair_manager {

RepairManager::RepairManager(const runtime::Runtime& runtime, Options options, ClusterView& view,
                             sight::Recorder* recorder)
    : runtime_(runtime),
      options_(options),
      view_(view),
      recorder_(recorder),
      tasks_(runtime),
      wake_(runtime),
      ended_(runtime),
      slots_(options.max_per_server) {}

RepairManager::~RepairManager() {
  KINTSUGI_ASSERT(tasks_.running() == 0 && callers_ == 0);
}

void RepairManager::start() {
  tasks_.spawn(schedule());
}

asio::awaitable<void> RepairManager::stop() {
  tasks_.request_stop();
  wake();
  ended_.notify_all();
  co_await tasks_.join();
  while (callers_ > 0)
    co_await ended_.wait();
}

void RepairManager::wake() {
  changed_ = true;
  wake_.notify_all();
}

void RepairManager::chunk_lost(ChunkId chunk, std::string why, bool delay_ok) {
  const TimePoint now = runtime_.clock.now();
  intake_.push_back({.chunks = {chunk},
                     .lost_at = now,
                     .due = delay_ok ? now + options_.delay : now,
                     .reason = std::make_shared<const std::string>(std::move(why))});
  wake();
}

void RepairManager::server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago) {
  const TimePoint lost_at = runtime_.clock.now() - ago;
  log::info("server {} is dead: {} chunks to repair", server, chunks.size());
  std::reverse(chunks.begin(), chunks.end());
  intake_.push_back({.chunks = std::move(chunks),
                     .dead_server = server,
                     .lost_at = lost_at,
                     .due = lost_at + options_.delay,
                     .reason = std::make_shared<const std::string>(fmt::format("server {} dead", server))});
  servers_fresh_until_ = {};
  wake();
}

void RepairManager::server_returned(ServerId server) {
  std::erase_if(intake_, [server](const Intake& loss) { return loss.dead_server == server; });
  const size_t cancelled = queue_.server_returned(server);
  if (cancelled > 0) log::info("server {} is back: {} repairs cancelled", server, cancelled);
  queue_.release_aside();
  suspect_until_.erase(server);
  servers_fresh_until_ = {};
  wake();
}

void RepairManager::stripe_deleted(StripeId stripe) {
  queue_.stripe_deleted(stripe);
  wake();
}

void RepairManager::keep_only(const std::function<bool(StripeId)>& mine) {
  for (Intake& loss : intake_)
    std::erase_if(loss.chunks, [&](ChunkId chunk) { return !mine(chunk.stripe); });
  queue_.keep_only(mine);
  wake();
}

void RepairManager::set_limits(Duration delay, uint32_t max_per_server) {
  options_.delay = delay;
  options_.max_per_server = max_per_server;
  slots_.set_limit(max_per_server);
}

std::vector<StripeId> RepairManager::stripes_to_prepare() const {
  std::set<StripeId> stripes;
  const auto add = [&](StripeId stripe) {
    if (!view_.prepared(stripe)) stripes.insert(stripe);
  };
  size_t taken = 0;
  for (const Intake& loss : intake_)
    for (auto chunk = loss.chunks.rbegin(); chunk != loss.chunks.rend() && taken < kIntakePerTurn;
         ++chunk, ++taken)
      add(chunk->stripe);
  size_t candidates = 0;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    add(entry.chunk.stripe);
    return ++candidates < kCandidatesPerTurn;
  });
  return {stripes.begin(), stripes.end()};
}

asio::awaitable<void> RepairManager::schedule() {
  while (!tasks_.stopping()) {
    changed_ = false;
    const TimePoint now = runtime_.clock.now();
    queue_.advance(now);
    if (std::vector<StripeId> stripes = stripes_to_prepare(); !stripes.empty()) {
      const Status prepared = co_await view_.prepare(std::move(stripes));
      if (tasks_.stopping()) co_return;
      if (!prepared.ok()) {
        co_await wake_.wait_until(runtime_.clock.now() + kBusyRetry);
        continue;
      }
    }
    take_in();
    if (queue_.aside() > 0 && now >= aside_retry_at_) {
      aside_retry_at_ = now + std::max<Duration>(options_.aside_retry, kAsideCost * queue_.aside());
      queue_.release_aside();
    }
    queue_.advance(now);
    start_ready();
    if (changed_) {
      co_await asio::post(runtime_.executor, asio::use_awaitable);  // others first
      continue;
    }
    TimePoint next = queue_.advance(now);
    if (queue_.aside() > 0) next = std::min(next, aside_retry_at_);
    if (queue_.ready() > 0) next = std::min(next, now + kBusyRetry);
    co_await wake_.wait_until(next);
  }
}

void RepairManager::take_in() {
  for (size_t taken = 0; !intake_.empty() && taken < kIntakePerTurn; ++taken) {
    Intake& loss = intake_.front();
    if (!loss.chunks.empty()) {
      if (!view_.prepared(loss.chunks.back().stripe)) break;  // it came meanwhile: next turn
      add(loss.chunks.back(), loss);
      loss.chunks.pop_back();
    }
    if (loss.chunks.empty()) intake_.pop_front();
  }
  if (!intake_.empty()) changed_ = true;
}

void RepairManager::add(ChunkId chunk, const Intake& loss) {
  if (running_.contains(chunk)) return;  // it ends in the queue or in a new place
  const std::optional<StripeView> stripe = view_.stripe(chunk.stripe);
  if (!stripe || chunk.index >= stripe->chunks.size() || stripe->chunks[chunk.index].available) return;
  const Result<erasure::Policy> policy = erasure::Policy::parse(stripe->policy);
  if (!policy) {
    log::error("chunk {} cannot be repaired: {}", chunk, policy.error().to_string());
    return;
  }
  const uint32_t usable = usable_chunks(*stripe, policy->k, static_cast<uint32_t>(stripe->chunks.size()));
  const int32_t spare = static_cast<int32_t>(usable) - static_cast<int32_t>(policy->k);
  const TimePoint due = spare <= RepairQueue::kUrgentSpare ? loss.lost_at : loss.due;
  QueueEntry entry{.chunk = chunk,
                   .spare = spare,
                   .lost_at = loss.lost_at,
                   .due = due,
                   .dead_server = loss.dead_server,
                   .reason = loss.reason};
  if (!queue_.add(std::move(entry), runtime_.clock.now()))
    log::error("repair queue is full ({}): chunk {} is left to the next block report", queue_.size(), chunk);
}

void RepairManager::start_ready() {
  std::vector<QueueEntry> candidates;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    candidates.push_back(entry);
    return candidates.size() < kCandidatesPerTurn;
  });
  if (candidates.empty()) return;
  refresh_servers();
  size_t busy = 0;
  for (const QueueEntry& entry : candidates) {
    if (running_.size() >= options_.max_running || busy >= kMaxBusyCandidates) return;
    if (!try_start(entry)) ++busy;
  }
  if (candidates.size() == kCandidatesPerTurn) changed_ = true;  // there may be more
}

bool RepairManager::try_start(const QueueEntry& entry) {
  if (!view_.prepared(entry.chunk.stripe)) {
    changed_ = true;  // it became ready meanwhile: next turn
    return false;
  }
  if (running_.contains(entry.chunk)) {
    queue_.take(entry.chunk);
    return true;
  }
  const PlanWishes wishes{.shape = options_.shape, .slice_bytes = options_.slice_bytes};
  Result<RepairPlan> planned = plan(entry, wishes, /*requested=*/false);
  if (planned) {
    QueueEntry taken = *queue_.take(entry.chunk);
    begin(*planned, taken);
    tasks_.spawn(run_queued(std::move(taken), std::move(*planned)));
    return true;
  }
  switch (planned.error().code()) {
    case Code::kLimitExceeded:
      return false;
    case Code::kUnavailable:
    case Code::kNoSpace:
      if (queue_.aside() == 0) aside_retry_at_ = runtime_.clock.now() + options_.aside_retry;
      if (queue_.put_aside(entry.chunk, planned.error().code() == Code::kNoSpace
                                            ? RepairQueue::Aside::kNoDestination
                                            : RepairQueue::Aside::kUnrepairable))
        log::warning("chunk {} cannot be repaired now: {}", entry.chunk, planned.error().to_string());
      return true;
    default:
      log::info("chunk {} needs no repair: {}", entry.chunk, planned.error().to_string());
      queue_.take(entry.chunk);
      return true;
  }
}

void RepairManager::refresh_servers() {
  const TimePoint now = runtime_.clock.now();
  if (now >= servers_fresh_until_) {
    servers_ = ServerTable(view_.servers());
    servers_fresh_until_ = now + kServersFresh;
  }
  std::erase_if(suspect_until_, [now](const auto& suspect) { return suspect.second <= now; });
  suspects_.clear();
  for (const auto& [server, until] : suspect_until_)
    suspects_.insert(server);
}

proto::RepairStatusResponse RepairManager::status() const {
  proto::RepairStatusResponse response;
  size_t waiting = queue_.size() - queue_.delayed() - queue_.unrepairable();
  for (const Intake& loss : intake_)
    waiting += loss.chunks.size();
  response.set_queued(waiting);
  response.set_delayed(queue_.delayed());
  response.set_unrepairable(queue_.unrepairable());
  for (const auto& [chunk, record] : running_)
    *response.add_running() = record;
  response.set_done(done_);
  response.set_failed(failed_);
  response.set_bytes_repaired(bytes_repaired_);
  response.set_repair_delay_seconds(std::chrono::duration<double>(options_.delay).count());
  return response;
}

std::vector<proto::RepairRecord> RepairManager::history(size_t limit) const {
  const size_t count = std::min(limit, history_.size());
  return {history_.begin(), history_.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace kintsugi::repair_manager
