#include "metaserver/service/inspect_service.h"

#include <algorithm>
#include <functional>

#include "common/proto/room_verdicts.h"
#include "erasure/code.h"
#include "erasure/policy.h"
#include "metaserver/service/fsck_page.h"
#include "metaserver/service/server_state.h"
#include "metaserver/service/servers_room.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kDiagnose{"metaserver.diagnose"};
constexpr sight::Site kListServers{"metaserver.list_servers"};
constexpr sight::Site kShowStripe{"metaserver.show_stripe"};
constexpr sight::Site kFsck{"metaserver.fsck", {}, {"files", "problems"}};

std::shared_ptr<const erasure::Code> code_of(const proto::StoredStripe& stripe) {
  const auto policy = erasure::Policy::parse(stripe.policy());
  KINTSUGI_ASSERT(policy);
  return erasure::Code::get(*policy);
}

}  // namespace

void InspectService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&InspectService::list_servers>(Method::kListServers, *this);
  server.handle<&InspectService::show_stripe>(Method::kShowStripe, *this);
  server.handle<&InspectService::fsck>(Method::kFsck, *this);
  server.handle<&InspectService::diagnose>(Method::kDiagnose, *this);
  server.handle<&InspectService::ping>(Method::kPing, *this);
}

asio::awaitable<Status> InspectService::diagnose(Context context, const proto::DiagnoseRequest&,
                                                 proto::DiagnoseResponse& response) {
  sight::Module module{context, kDiagnose};
  response.set_reduced(true);
  const TimePoint now = store_.runtime.clock.now();
  for (const auto& [id, server] : servers_.registry.servers()) {
    const proto::SightSummary& sight = server.load.sight();
    const proto::ServerState state = servers_.registry.state_of(server);
    const uint64_t silent =
        static_cast<uint64_t>(std::max<int64_t>(0, (now - server.last_heartbeat).count()));
    proto::ProcessLine& process = *response.add_processes();
    process.set_kind("chunkserver");
    process.set_name(state.name());
    process.set_address(state.address());
    process.set_silent_ns(silent);
    process.set_live(sight.live());
    process.set_loop_lag_ns(sight.loop_lag_ns());
    if (auto held = rebalancer_.held_back(id)) *response.add_held_back() = std::move(*held);
    if (state.maintenance_seconds() > 0) {
      proto::MaintainedServer& maintained = *response.add_in_maintenance();
      maintained.set_server_id(id.value);
      maintained.set_server(state.name());
      maintained.set_seconds_left(state.maintenance_seconds());
      if (server.liveness != proto::ServerState::ALIVE) continue;  // as its operator said
    }
    const bool is_silent = server.liveness != proto::ServerState::ALIVE;
    if (!is_silent && sight.stalled() == 0) continue;
    proto::Verdict& verdict = *response.add_verdicts();
    verdict.set_kind(is_silent ? proto::Verdict::SILENT : proto::Verdict::STUCK);
    verdict.set_server(state.name());
    verdict.set_server_id(id.value);
    verdict.set_process_kind("chunkserver");
    verdict.set_region(sight.oldest().substr(0, sight.oldest().find(';')));
    verdict.set_since_ns(is_silent ? silent : sight.oldest_ns());
    verdict.set_waiters(sight.stalled());
    // Who waits for whom is not in a heartbeat: this one may wait for another.
    verdict.set_confidence(proto::Verdict::UNSURE);
    verdict.add_why(is_silent ? "no heartbeat comes from it" : sight.oldest());
    verdict.add_why("by heartbeats alone: no monitor runs, or none was asked");
  }
  std::ranges::stable_sort(*response.mutable_verdicts(), std::greater<>(), &proto::Verdict::since_ns);
  const auto policy = erasure::Policy::parse(names_.policies.default_policy(Reader(store_.kv)));
  const proto::Room servers =
      policy ? servers_room(servers_, *policy, store_.options.chunk_bytes) : proto::Room();
  for (proto::Verdict& verdict : proto::no_room(servers, store_.room.describe()))
    *response.add_verdicts() = std::move(verdict);
  co_return module.finish({});
}

asio::awaitable<Status> InspectService::ping(Context, const Empty&, Empty&) {
  co_return Status{};
}

asio::awaitable<Status> InspectService::list_servers(Context context, const Empty&,
                                                     proto::ListServersResponse& response) {
  sight::Module module{context, kListServers};
  for (const auto& [id, server] : servers_.registry.servers())
    *response.add_servers() = state_of(server);
  response.set_metaserver_pages(store_.options.http_address);
  co_return module.finish(co_await store_.finish_read(module.context()));
}

proto::ServerState InspectService::state_of(const ServerRecord& server) const {
  return server_state(server, servers_, chunks_.block_reports, rebalancer_, store_.kv);
}

Status InspectService::describe_stripe(StripeId id, proto::ShowStripeResponse& response) const {
  const auto stored = load_stripe(store_.kv, id);
  if (!stored) return {Code::kNotFound, fmt::format("stripe {} does not exist", id)};
  *response.mutable_stripe() = describer_.describe(id, *stored, rpc::kOpRead, kReadCapabilityLife);
  for (const proto::StoredChunk& chunk : stored->chunks()) {
    if (const ServerRecord* server = servers_.registry.find(ServerId{chunk.server_id()})) {
      *response.add_servers() = state_of(*server);
    }
  }
  const std::vector<uint32_t> available = chunks_.map.available_chunks(id, *stored);
  const bool whole = available.size() == static_cast<size_t>(stored->chunks_size());
  response.set_state(whole ? "healthy" : code_of(*stored)->decodable(available) ? "degraded" : "lost");
  return {};
}

asio::awaitable<Status> InspectService::show_stripe(Context context, const proto::ShowStripeRequest& request,
                                                    proto::ShowStripeResponse& response) {
  sight::Module module{context, kShowStripe};
  const Status described = describe_stripe(StripeId{request.stripe_id()}, response);
  co_return module.finish(co_await store_.finish_read(module.context(), described));
}

asio::awaitable<Status> InspectService::fsck(Context context, const proto::FsckRequest& request,
                                             proto::FsckResponse& response) {
  sight::Module module{context, kFsck};
  const std::unique_ptr<const ReadView> snapshot = store_.kv.snapshot();
  const Status checked = FsckPage({names_, servers_.registry, chunks_.map, chunks_.block_reports, describer_},
                                  Reader(*snapshot), request, response)
                             .fill();
  module.output(0, double(response.files()));
  module.output(1, double(response.problems_size()));
  co_return module.finish(co_await store_.finish_read(module.context(), checked));
}

}  // namespace kintsugi::metaserver
