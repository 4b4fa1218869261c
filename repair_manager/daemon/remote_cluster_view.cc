#include "repair_manager/daemon/remote_cluster_view.h"

#include <algorithm>

#include "common/log/log.h"
#include "repair_manager/view/wire_views.h"

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kMaxDeletions = 10'000;  // remembered

/// All chunks that the tree below `node` stores.
void add_stored(StripeId stripe, const proto::RepairNode& node,
                std::vector<std::pair<ChunkId, ServerId>>& places) {
  for (const proto::RebuiltChunk& chunk : node.stores())
    places.emplace_back(ChunkId{stripe, chunk.index()}, ServerId{node.server_id()});
  for (const proto::RepairNode& child : node.children())
    add_stored(stripe, child, places);
}

}  // namespace

RemoteClusterView::RemoteClusterView(const runtime::Runtime& runtime, rpc::Client& client,
                                     const rpc::Secret& secret, runtime::Endpoint metaserver,
                                     uint64_t manager_id)
    : runtime_(runtime),
      metaserver_clock_(runtime.clock),
      client_(client),
      secret_(secret),
      metaserver_(std::move(metaserver)),
      manager_id_(manager_id),
      tasks_(runtime) {}

asio::awaitable<void> RemoteClusterView::stop() {
  co_await tasks_.stop();
}

void RemoteClusterView::set_shards(const proto::JoinRepairResponse& answer, TimePoint lease_end) {
  shards_.fill(false);
  for (uint32_t shard : answer.shards())
    if (shard < kRepairShards) shards_[shard] = true;
  lease_end_ = lease_end;
}

asio::awaitable<Status> RemoteClusterView::refresh_servers(Context context) {
  const proto::Empty request;
  proto::ListServersResponse response;
  KINTSUGI_CO_TRY(
      co_await client_.call(limited(context), metaserver_, rpc::Method::kListServers, request, response));
  states_.assign(response.servers().begin(), response.servers().end());
  servers_.clear();
  for (const proto::ServerState& state : states_)
    if (std::optional<ServerView> server = server_view(state)) servers_.push_back(std::move(*server));
  co_return Status{};
}

std::string RemoteClusterView::name_of(ServerId server) const {
  const auto known = std::ranges::find(servers_, server, &ServerView::id);
  return known == servers_.end() ? ClusterView::name_of(server) : known->name;
}

// ---- stripes ---------------------------------------------------------------------------------------------

std::optional<StripeView> RemoteClusterView::stripe(StripeId id) const {
  if (!mine(id)) return std::nullopt;
  const auto kept = stripes_.find(id);
  return kept == stripes_.end() ? std::nullopt : kept->second.stripe;
}

bool RemoteClusterView::fetched(StripeId id) const {
  if (!mine(id)) return true;
  const auto kept = stripes_.find(id);
  return kept != stripes_.end() && runtime_.clock.now() < kept->second.fetched + kFresh;
}

asio::awaitable<Status> RemoteClusterView::fetch(Context context, std::vector<StripeId> stripes) {
  std::erase_if(stripes, [this](StripeId id) { return fetched(id); });
  if (stripes.empty()) co_return Status{};
  if (stripes.size() > kMaxFetched)
    co_return Status{Code::kLimitExceeded, fmt::format("more than {} stripes at once", kMaxFetched)};
  if (stripes_.size() + stripes.size() > kMaxKept) {
    const TimePoint now = runtime_.clock.now();
    std::erase_if(stripes_, [now](const auto& kept) { return now >= kept.second.fetched + kFresh; });
    if (stripes_.size() + stripes.size() > kMaxKept) stripes_.clear();
  }
  for (int question = 0; question < kQuestions && !stripes.empty(); ++question) {
    KINTSUGI_CO_TRY(co_await describe(context, stripes));
    std::erase_if(stripes, [this](StripeId id) { return fetched(id); });
  }
  co_return Status{};
}

asio::awaitable<Status> RemoteClusterView::describe(Context context, std::vector<StripeId> stripes) {
  const TimePoint asked = runtime_.clock.now();
  const uint64_t question = ++questions_;
  proto::DescribeStripesRequest request;
  for (StripeId stripe : stripes) {
    request.add_stripe_ids(stripe.value);
    stripes_.try_emplace(stripe, Kept{.since = question});
  }
  proto::DescribeStripesResponse response;
  KINTSUGI_CO_TRY(
      co_await client_.call(limited(context), metaserver_, rpc::Method::kDescribeStripes, request, response));
  std::map<StripeId, std::optional<StripeView>> told;
  for (const proto::StripeDescription& description : response.stripes())
    told[StripeId{description.stripe().stripe_id()}] = stripe_view(description);
  for (StripeId stripe : stripes) {
    // A stripe that was forgotten meanwhile has changed, and this answer may be older than the change.
    const auto kept = stripes_.find(stripe);
    if (kept == stripes_.end() || question < kept->second.since || asked < kept->second.fetched) continue;
    kept->second.fetched = asked;
    kept->second.stripe = std::move(told[stripe]);
  }
  co_return Status{};
}

std::string RemoteClusterView::capability(ChunkId chunk, uint32_t operations, WallTime expiry) const {
  return rpc::make_capability(secret_, chunk, operations, expiry);
}

// ---- repairs ---------------------------------------------------------------------------------------------

bool RemoteClusterView::deletion_pending(ChunkId chunk, ServerId server) const {
  const auto known = deletions_.find({chunk, server});
  return known != deletions_.end() && runtime_.clock.now() < known->second;
}

asio::awaitable<Status> RemoteClusterView::check_place(Context context, Place place) {
  std::optional<StripeView> known = stripe(place.chunk.stripe);
  if (!known && mine(place.chunk.stripe)) {
    // It was forgotten since the repair was planned: a server died or joined. The metaserver says if the place still stands.
    if (Status fetched = co_await fetch(context, {place.chunk.stripe}); !fetched.ok())
      co_return Status{Code::kConflict, fetched.message()};
    known = stripe(place.chunk.stripe);
  }
  // All errors are kConflict, which blames no server: what was planned is out of date.
  if (!known || place.chunk.index >= known->chunks.size())
    co_return Status{Code::kConflict,
                     fmt::format("stripe {} is not this manager's any more", place.chunk.stripe)};
  proto::CommitRepairRequest request;
  request.set_manager_id(manager_id_);
  request.set_stripe_id(place.chunk.stripe.value);
  request.set_index(place.chunk.index);
  request.set_expected_old(known->chunks[place.chunk.index].server.value);
  request.set_server_id(place.destination.value);
  request.set_check_only(true);
  proto::CommitRepairResponse response;
  const Status allowed =
      co_await client_.call(limited(context), metaserver_, rpc::Method::kCommitRepair, request, response);
  // A repair that was given up says nothing of the next one of the chunk, which may have asked meanwhile.
  if (!wanted_.contains(place.repair_id)) co_return Status{Code::kCancelled, "given up before it began"};
  if (allowed.ok()) {
    checked_[place.chunk] = {.life = response.life(),
                             .server_incarnation = response.server_incarnation(),
                             .repair_id = place.repair_id};
    co_return Status{};
  }
  stripes_.erase(place.chunk.stripe);
  const TimePoint now = runtime_.clock.now();
  std::erase_if(deletions_, [now](const auto& deletion) { return now >= deletion.second; });
  if (allowed.code() == Code::kConflict && deletions_.size() < kMaxDeletions)
    deletions_[{place.chunk, place.destination}] = now + kDeletionMemory;
  co_return Status{Code::kConflict, allowed.message()};
}

asio::awaitable<Result<proto::RepairChunkResponse>> RemoteClusterView::execute(
    Context context, runtime::Endpoint destination, proto::RepairChunkRequest request) {
  const StripeId stripe{request.stripe_id()};
  std::vector<std::pair<ChunkId, ServerId>> places;
  places.emplace_back(ChunkId{stripe, request.index()}, server_at(destination));
  for (const proto::RepairNode& child : request.children())
    add_stored(stripe, child, places);
  wanted_.insert(request.repair_id());
  Status checked;
  for (size_t i = 0; i < places.size() && checked.ok(); ++i)
    checked = co_await check_place(context, Place{places[i].first, places[i].second, request.repair_id()});
  proto::RepairChunkResponse response;
  Status rebuilt = checked;
  if (checked.ok())
    rebuilt =
        co_await client_.call(context, std::move(destination), rpc::Method::kRepairChunk, request, response);
  wanted_.erase(request.repair_id());
  // A call that was given up may end when another repair of the chunk has begun.
  if (rebuilt.ok()) co_return response;
  std::erase_if(checked_, [&](const auto& entry) { return entry.second.repair_id == request.repair_id(); });
  co_return rebuilt;
}

asio::awaitable<void> RemoteClusterView::give_up(Context context, runtime::Endpoint destination,
                                                 proto::EndRepairRequest request) {
  wanted_.erase(request.repair_id());
  proto::Empty response;
  // Unheard it costs no more than time: the repair ends at its own deadline.
  (void)co_await client_.call(context, std::move(destination), rpc::Method::kEndRepair, request, response);
}

ServerId RemoteClusterView::server_at(const runtime::Endpoint& address) const {
  // A server that was set up anew has its address from one that is dead.
  const ServerView* found = nullptr;
  for (const ServerView& server : servers_)
    if (server.address == address && (found == nullptr || server.alive)) found = &server;
  return found == nullptr ? ServerId{} : found->id;
}

asio::awaitable<Status> RemoteClusterView::commit_repair(Context context, ChunkId chunk,
                                                         ServerId expected_old, ServerId server) {
  proto::CommitRepairRequest request;
  request.set_manager_id(manager_id_);
  request.set_stripe_id(chunk.stripe.value);
  request.set_index(chunk.index);
  request.set_expected_old(expected_old.value);
  request.set_server_id(server.value);
  const auto checked = checked_.find(chunk);
  if (checked != checked_.end()) {
    request.set_life(checked->second.life);
    request.set_server_incarnation(checked->second.server_incarnation);
    checked_.erase(checked);
  }
  const Context limited = context.with_deadline(runtime_.clock.now() + kCommitLimit);
  while (true) {
    proto::CommitRepairResponse response;
    const Status committed =
        co_await client_.call(limited, metaserver_, rpc::Method::kCommitRepair, request, response);
    stripes_.erase(chunk.stripe);
    if (committed.ok()) co_return Status{};
    const Code code = committed.code();
    if (code != Code::kUnavailable || runtime_.clock.now() + kCommitRetry >= limited.deadline)
      co_return committed;
    const bool slept = co_await tasks_.sleep_for(kCommitRetry);
    if (!slept) co_return committed;
  }
}

void RemoteClusterView::report_lost(ChunkId chunk, ServerId server, const std::string& why) {
  proto::ReportChunkRequest report;
  report.set_stripe_id(chunk.stripe.value);
  report.set_index(chunk.index);
  report.set_server_id(server.value);
  report.set_detail(why);
  stripes_.erase(chunk.stripe);
  tasks_.spawn(send_report(std::move(report)));
}

asio::awaitable<void> RemoteClusterView::send_report(proto::ReportChunkRequest report) {
  proto::Empty response;
  const Status sent =
      co_await client_.call(limited(Context{}), metaserver_, rpc::Method::kReportChunk, report, response);
  if (!sent.ok()) log::warning("a lost chunk could not be reported: {}", sent.to_string());
}

}  // namespace kintsugi::repair_manager
