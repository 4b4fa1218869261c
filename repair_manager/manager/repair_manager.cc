#include "repair_manager/manager/repair_manager.h"

#include <algorithm>
#include <set>

#include "common/base/assert.h"
#include "common/log/log.h"

namespace kintsugi::repair_manager {

RepairManager::RepairManager(const runtime::Runtime& runtime, Options options, ClusterView& view,
                             sight::Recorder* recorder)
    : runtime_(runtime),
      options_(options),
      view_(view),
      recorder_(recorder),
      wake_(runtime),
      intake_(view),
      planner_(runtime, options_, view),
      records_(options.history),
      reads_(runtime, planner_, records_),
      runner_(runtime, options_, view, planner_, records_, *this),
      starter_(runtime, options_, view, planner_, queue_, runner_),
      requested_(runtime, options.attempts_in_a_row, {view, planner_, queue_, runner_, *this}),
      tasks_(runtime) {}

RepairManager::~RepairManager() {
  KINTSUGI_ASSERT(tasks_.running() == 0);
}

void RepairManager::start() {
  tasks_.spawn(schedule());
}

asio::awaitable<void> RepairManager::stop() {
  tasks_.request_stop();
  requested_.request_stop();
  runner_.request_stop();
  wake();
  // Attempts first: their callers are tasks of this and of requested_, their calls are tasks of the runner.
  co_await tasks_.join();
  co_await requested_.join();
  co_await runner_.join();
}

void RepairManager::wake() {
  changed_ = true;
  wake_.notify_all();
}

void RepairManager::chunk_lost(ChunkId chunk, std::string why, bool delay_ok) {
  const TimePoint now = runtime_.clock.now();
  intake_.add({chunk}, {.lost_at = now,
                        .due = delay_ok ? now + options_.delay : now,
                        .reason = std::make_shared<const std::string>(std::move(why))});
  wake();
}

void RepairManager::server_dead(ServerId server, std::vector<ChunkId> chunks, Duration ago) {
  end_attempts_with(server);
  const TimePoint lost_at = runtime_.clock.now() - ago;
  const std::string name = view_.name_of(server);
  planner_.refresh();
  const ServerView* view = planner_.servers().find(server);
  const Duration maintenance = view == nullptr ? Duration::zero() : view->maintenance_left;
  if (maintenance > Duration::zero()) {
    log::info("server {} is in maintenance: {} chunks wait for it, for {:.0f} s at most", name, chunks.size(),
              to_seconds(maintenance));
  } else {
    log::info("server {} is dead: {} chunks to repair", name, chunks.size());
  }
  auto reason = std::make_shared<const std::string>(fmt::format("server {} dead", name));
  intake_.add(std::move(chunks),
              {.lost_at = lost_at,
               .due = std::max(lost_at + options_.delay, runtime_.clock.now() + maintenance),
               .dead_server = server,
               .reason = std::move(reason)});
  wake();
}

void RepairManager::end_attempts_with(ServerId dead) {
  planner_.servers_changed();
  runner_.end_attempts_with(dead);
}

void RepairManager::maintenance_changed(ServerId server) {
  intake_.server_returned(server);
  queue_.server_returned(server);
  planner_.servers_changed();
  wake();
}

void RepairManager::server_returned(ServerId server) {
  intake_.server_returned(server);
  const size_t cancelled = queue_.server_returned(server);
  if (cancelled > 0) log::info("server {} is back: {} repairs cancelled", view_.name_of(server), cancelled);
  queue_.unblock_all();
  planner_.forgive(server);
  planner_.servers_changed();
  wake();
}

void RepairManager::stripe_deleted(StripeId stripe) {
  queue_.stripe_deleted(stripe);
  wake();
}

void RepairManager::move_wanted(ChunkId chunk, ServerId from, std::string why, ServerId to) {
  const TimePoint now = runtime_.clock.now();
  intake_.add({chunk}, {.kind = WorkKind::kMove,
                        .lost_at = now,
                        .due = now,
                        .moving_from = from,
                        .moving_to = to,
                        .reason = std::make_shared<const std::string>(std::move(why))});
  wake();
}

void RepairManager::moves_cancelled(ServerId from) {
  intake_.moves_cancelled(from);
  const size_t cancelled = queue_.moves_cancelled(from);
  if (cancelled > 0) log::info("{} moves away from server {} cancelled", cancelled, view_.name_of(from));
  wake();
}

size_t RepairManager::moves() const {
  return queue_.moves() + runner_.running_moves() + intake_.moves();
}

void RepairManager::keep_only(std::function<bool(StripeId)> mine) {
  intake_.keep_only(mine);
  queue_.keep_only(std::move(mine));
  wake();
}

void RepairManager::set_limits(Duration delay, uint32_t max_per_server) {
  options_.delay = delay;
  options_.max_per_server = max_per_server;
  planner_.slots().set_limit(max_per_server);
}

Result<proto::PlanReadResponse> RepairManager::plan_read(const proto::PlanReadRequest& request) {
  Result<proto::PlanReadResponse> response = reads_.plan(request);
  if (!response) return response;
  queue_.heat_up({StripeId{request.stripe_id()}, request.index()});
  if (reads_.open() == 1) wake();  // the scheduler must now wait for the end of the read's lease
  return response;
}

Status RepairManager::finish_read(const proto::FinishReadRequest& request) {
  const Status status = reads_.finish(request);
  if (queue_.ready() > 0) wake();
  return status;
}

std::vector<StripeId> RepairManager::stripes_to_fetch() const {
  std::set<StripeId> stripes;
  const auto add = [&](StripeId stripe) {
    if (stripes.size() < ClusterView::kMaxFetched && !view_.fetched(stripe)) stripes.insert(stripe);
  };
  intake_.for_each_next(kIntakePerTurn, add);
  size_t candidates = 0;
  queue_.for_each_ready([&](const QueueEntry& entry) {
    add(entry.chunk.stripe);
    return ++candidates < starter_.window();
  });
  return {stripes.begin(), stripes.end()};
}

asio::awaitable<void> RepairManager::schedule() {
  while (!tasks_.stopping()) {
    changed_ = false;
    const TimePoint now = runtime_.clock.now();
    queue_.advance(now);
    if (std::vector<StripeId> stripes = stripes_to_fetch(); !stripes.empty()) {
      const Context context = recorder_ != nullptr ? recorder_->root_context() : Context{};
      const Status fetched = co_await view_.fetch(context, std::move(stripes));
      if (tasks_.stopping()) co_return;
      if (!fetched.ok()) {
        co_await wake_.wait_until(runtime_.clock.now() + kBusyRetry);
        continue;
      }
    }
    take_in();
    queue_.advance(now);
    start_ready();
    const TimePoint next_read = reads_.expire(now);
    TimePoint next = std::min(queue_.advance(now), next_read);
    if (changed_ || next <= now) {
      co_await asio::post(runtime_.executor, asio::use_awaitable);  // other coroutines run first
      continue;
    }
    if (queue_.ready() > 0) next = std::min(next, now + kBusyRetry);
    co_await wake_.wait_until(next);
  }
}

void RepairManager::take_in() {
  // What came meanwhile and is not fetched is for the next turn.
  size_t most = kIntakePerTurn;
  if (!intake_.empty()) planner_.refresh();
  while (std::optional<QueueEntry> next = intake_.take(most))
    add(std::move(*next));
  if (!intake_.empty()) changed_ = true;
}

void RepairManager::add(QueueEntry entry) {
  const ChunkId chunk = entry.chunk;
  if (runner_.runs(chunk)) {
    // It ends in the queue, or in a new place: which may be the one that was lost just now.
    if (entry.kind == WorkKind::kRepair) runner_.note_lost_again(chunk);
    return;
  }
  if (!intake_.look_up(entry, planner_.servers())) return;
  // When the maintenance is over, the loss is one that a stripe with so few spare chunks does not wait out.
  const ServerView* awaited = planner_.servers().find(entry.dead_server);
  if (entry.in_maintenance && entry.spare <= kUrgentSpare && awaited != nullptr)
    entry.due = std::min(entry.due, runtime_.clock.now() + awaited->maintenance_left);
  if (entry.kind == WorkKind::kRepair && entry.due <= runtime_.clock.now()) {
    for (QueueEntry& other : intake_.lost_beside(entry, planner_.servers()))
      if (!runner_.runs(other.chunk) && !queue_.contains(other.chunk)) enqueue(std::move(other));
  }
  enqueue(std::move(entry));
}

void RepairManager::enqueue(QueueEntry entry) {
  const ChunkId chunk = entry.chunk;
  const TimePoint now = runtime_.clock.now();
  if (queue_.add(std::move(entry), now)) return;
  if (const uint64_t refused = refused_.count(now)) {
    log::error(
        "the repair queue is full: {} chunks found no room since the last such line, chunk {} is one of "
        "them; they are "
        "queued when their servers report again, within an hour",
        refused, chunk);
  }
}

void RepairManager::start_ready() {
  RepairStarter::Turn turn = starter_.take_turn(intake_.chunks());
  for (std::shared_ptr<RepairRun>& run : turn.begun)
    tasks_.spawn(run_queued(std::move(run)));
  for (ChunkId chunk : turn.lost)
    chunk_lost(chunk, "lost while it was to be moved", /*delay_ok=*/true);
  changed_ |= turn.more;
}

asio::awaitable<void> RepairManager::run_queued(std::shared_ptr<RepairRun> run) {
  const Context context = recorder_ != nullptr ? recorder_->root_context() : Context{};
  const Status status = co_await runner_.carry_out(context, run);
  if (status.ok() || tasks_.stopping()) co_return;
  for (const QueueEntry& entry : run->entries) {
    // A move does not come back: who wants it asks again.
    if (entry.kind == WorkKind::kRepair)
      queue_.add(intake_.renewed(entry, planner_.servers()), runtime_.clock.now());
  }
  wake();
}

asio::awaitable<Status> RepairManager::run_repair(Context context, const proto::RunRepairRequest& request,
                                                  proto::RunRepairResponse& response) {
  if (!proto::RepairShape_IsValid(request.shape()))
    co_return Status{Code::kInvalidArgument,
                     fmt::format("no repair shape has number {}", int{request.shape()})};
  WantedRepair wanted{.stripe = StripeId{request.stripe_id()},
                      .indexes = {request.index()},
                      .wishes = {.shape = request.shape(),
                                 .slice_bytes = request.slice_bytes(),
                                 .destination = ServerId{request.destination()}}};
  wanted.indexes.insert(wanted.indexes.end(), request.more_indexes().begin(), request.more_indexes().end());
  KINTSUGI_CO_ASSIGN(*response.mutable_record(), co_await run(context, std::move(wanted)));
  co_return Status{};
}

RepairCounts RepairManager::counts() const {
  return {.queued = queue_.size() - queue_.delayed() - queue_.unrepairable() + intake_.chunks(),
          .delayed = queue_.delayed(),
          .unrepairable = queue_.unrepairable(),
          .running = records_.all_running().size(),
          .done = runner_.done(),
          .failed = runner_.failed(),
          .bytes_repaired = runner_.bytes_repaired()};
}

proto::RepairStatusResponse RepairManager::status() const {
  const RepairCounts counts = this->counts();
  proto::RepairStatusResponse response;
  response.set_queued(counts.queued);
  response.set_delayed(counts.delayed);
  response.set_unrepairable(counts.unrepairable);
  for (const auto& [id, record] : records_.all_running())
    *response.add_running() = record;
  response.set_done(counts.done);
  response.set_failed(counts.failed);
  response.set_bytes_repaired(counts.bytes_repaired);
  response.set_repair_delay_seconds(to_seconds(options_.delay));
  return response;
}

}  // namespace kintsugi::repair_manager
