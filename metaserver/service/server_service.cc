#include "metaserver/service/server_service.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/runtime/span.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kRegister{"metaserver.register_server"};
constexpr sight::Site kHeartbeat{"metaserver.heartbeat", {"lost_chunks"}, {"victims"}};
constexpr sight::Site kBlockReport{"metaserver.block_report", {"chunks"}};
constexpr sight::Site kReportChunk{"metaserver.report_chunk"};

/// Chunks of a page of a block report that are compared before others have a turn.
constexpr int kChunksOfATurn = 750;
constexpr size_t kMaxDetailBytes = 500;  ///< a reader's message is cut to this length

/// Says in one line for each disk that this heartbeat is the first to call failed, what becomes of all the chunks on
/// it. `before` is the heartbeat before this one.
void tell_failed_disks(const std::string& server, const proto::HeartbeatRequest& before,
                       const proto::HeartbeatRequest& now) {
  for (const proto::DiskState& disk : now.disk_states()) {
    if (disk.health() != proto::DiskState::FAILED) continue;
    const auto known = std::ranges::find(before.disk_states(), disk.disk(), &proto::DiskState::disk);
    const bool is_known = known != before.disk_states().end();
    if (is_known && known->health() == proto::DiskState::FAILED) continue;
    log::error("server {}: disk {} has failed ({}): {} are rebuilt elsewhere", server, disk.path(),
               disk.reason(), is_known ? fmt::format("its {} chunks", known->chunks()) : "the chunks on it");
  }
}

}  // namespace

void ServerService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&ServerService::register_server>(Method::kRegisterServer, *this);
  server.handle<&ServerService::heartbeat>(Method::kHeartbeat, *this);
  server.handle<&ServerService::block_report>(Method::kBlockReport, *this);
  server.handle<&ServerService::report_chunk>(Method::kReportChunk, *this);
}

asio::awaitable<Status> ServerService::register_server(Context context,
                                                       const proto::RegisterServerRequest& request,
                                                       proto::RegisterServerResponse& response) {
  sight::Module module{context, kRegister};
  const ServerId server{request.server_id()};
  KINTSUGI_CO_TRY(module.finish(proto::check_daemon_format(request.newest_format(), store_.format)));
  Transaction transaction(store_.kv);
  const Result<ServerRegistry::Before> before = servers_.registry.register_server(transaction, request);
  if (before && *before == ServerRegistry::Before::kReplaces) {
    response.set_replaces(servers_.registry.find(server)->stored.incarnation());
    co_return module.finish({});
  }
  if (before && *before == ServerRegistry::Before::kDead) host_->server_returned(server);
  const Status registered = before ? Status{} : before.error();
  if (before) watch_.heard(server, context.connection);
  if (before) chunks_.history.check_mark(transaction, server, request.seen());
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), registered, transaction)));
  chunks_.garbage.wake(server);
  servers_.caches.forget(server);
  servers_.changed.notify_all();
  response.set_heartbeat_interval_ms(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(store_.options.heartbeat_interval).count()));
  response.set_cluster_id(store_.cluster_id);
  response.set_format(store_.format);
  const proto::ServerName name = servers_.registry.names().of(server);
  response.set_number(name.number());
  response.set_name(name.name());
  co_return Status{};
}

asio::awaitable<Status> ServerService::heartbeat(Context context, const proto::HeartbeatRequest& request,
                                                 proto::HeartbeatResponse& response) {
  sight::Module module{context, kHeartbeat, {double(request.lost_size())}};
  const ServerId server{request.server_id()};
  const ServerRecord* known = servers_.registry.find(server);
  if (known != nullptr && known->registered)
    tell_failed_disks(servers_.registry.name_of(server), known->load, request);
  const auto verdict = servers_.registry.heartbeat(request);
  if (!verdict) co_return module.finish(co_await store_.finish_read(module.context(), verdict.error()));
  response.set_format(store_.format);
  response.set_wall_clock_ns(store_.runtime.clock.wall_now().time_since_epoch().count());
  // A server that joined while the cluster was finalized, and does not know its format, is refused when it registers again.
  const bool outdated =
      known != nullptr && !proto::check_daemon_format(known->newest_format, store_.format).ok();
  if (*verdict == ServerRegistry::Verdict::kRegisterAgain || outdated) {
    response.set_register_again(true);
    co_return Status{};
  }
  watch_.heard(server, context.connection);
  watch_disks(server, request);
  servers_.caches.apply(server, request);
  for (const proto::ReportedChunk& lost : request.lost()) {
    const std::string why =
        fmt::format("server {} found it missing or corrupt", servers_.registry.name_of(server));
    const ChunkId chunk{StripeId{lost.stripe_id()}, lost.index()};
    if (report_lost(chunk, server, why, false)) continue;
    // It may be sealed, or committed by a repair, in a moment.
    chunks_.block_reports.note_lost_early(server);
    chunks_.garbage.copy_lost(server, chunk);
  }
  Transaction transaction(store_.kv);
  const bool hold = chunks_.history.doubt().has_value();
  const Garbage::Orders orders = chunks_.garbage.exchange(transaction, request, hold);
  // An order to delete is derived from writes that may still be pending, and whoever carries it out cannot take it
  // back: it leaves only once they are durable. A heartbeat without orders waits for nothing.
  if (!orders.victims.empty() || !transaction.empty()) {
    KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), {}, transaction)));
  }
  // The commit took a while: a doubt may have begun meanwhile. Orders that are not sent count as lost on their way.
  if (!chunks_.history.doubt()) {
    response.set_orders(orders.number);
    for (ChunkId victim : orders.victims) {
      proto::HeartbeatResponse::Victim* ordered = response.add_delete_chunks();
      ordered->set_stripe_id(victim.stripe.value);
      ordered->set_index(victim.index);
    }
  }
  response.set_report_blocks(chunks_.block_reports.should_ask(server));
  response.set_repair_limit_bytes_per_second(servers_.repair_limit.bytes_per_second());
  response.set_probe_address(servers_.registry.random_peer(server, store_.runtime.random));
  if (auto mark = chunks_.history.mark()) *response.mutable_metadata() = *mark;
  module.output(0, response.delete_chunks_size());
  co_return Status{};
}

bool ServerService::report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven) {
  const auto stripe = load_stripe(store_.kv, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return false;
  if (!server || stripe->chunks(static_cast<int>(chunk.index)).server_id() != server.value) return false;
  if (chunks_.map.set_lost(chunk, proven)) host_->chunk_lost(chunk, why);
  if (proven) chunks_.block_reports.note_distrusted(server, store_.runtime.clock.now() + ChunkMap::kDistrust);
  return true;
}

void ServerService::watch_disks(ServerId server, const proto::HeartbeatRequest& request) {
  ServerRecord* record = servers_.registry.find(server);
  const TimePoint now = store_.runtime.clock.now();
  // As long as a server may be silent until what it has is repaired.
  const Duration patience = store_.options.dead_after + host_->repair_delay();
  if (record == nullptr || !record->hung_disks.told(request, now, patience)) return;
  record->report_again = now;
  for (const proto::DiskState& disk : request.disk_states()) {
    if (!record->hung_disks.given_up(disk.disk())) continue;
    log::warning(
        "server {}: disk {} hangs for more than {:.0f} s: what is on it counts as lost until it answers",
        servers_.registry.name_of(server), disk.path(), to_seconds(patience));
  }
}

asio::awaitable<Status> ServerService::block_report(Context context, const proto::BlockReportRequest& request,
                                                    Empty&) {
  sight::Module module{context, kBlockReport, {double(request.chunks_size())}};
  // Only the first report after a registration brings chunks back; those that come every hour do not.
  const ServerRecord* server = servers_.registry.find(ServerId{request.server_id()});
  const bool first = server != nullptr && server->wants_block_report;
  if (request.chunks_size() > BlockReports::kMaxChunksOfAPage)
    co_return module.finish(Status{Code::kLimitExceeded, "a page of a block report is too long"});
  proto::BlockReportRequest part = request;
  bool complete = false;
  for (int begin = 0;; begin += kChunksOfATurn) {
    const int end = std::min(begin + kChunksOfATurn, request.chunks_size());
    part.mutable_chunks()->Assign(request.chunks().begin() + begin, request.chunks().begin() + end);
    part.set_last(request.last() && end == request.chunks_size());
    part.set_continues(request.continues() || begin > 0);
    KINTSUGI_CO_TRY(module.finish(co_await take_report(module.context(), part, complete)));
    if (end == request.chunks_size()) break;
    // A commit of nothing waits for nothing: others have a turn all the same.
    co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
  if (complete && first) host_->block_report_complete(ServerId{request.server_id()});
  co_return Status{};
}

asio::awaitable<Status> ServerService::take_report(Context context, const proto::BlockReportRequest& page,
                                                   bool& complete) {
  Transaction transaction(store_.kv);
  std::vector<BlockReports::LostChunk> lost;
  const Result<bool> taken = chunks_.block_reports.take_page(transaction, page, lost);
  for (const BlockReports::LostChunk& chunk : lost)
    host_->chunk_lost(chunk.chunk, chunk.why);
  complete = taken && *taken;
  co_return co_await store_.finish(context, taken ? Status{} : taken.error(), transaction);
}

asio::awaitable<Status> ServerService::report_chunk(Context context, const proto::ReportChunkRequest& request,
                                                    Empty&) {
  sight::Module module{context, kReportChunk};
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  const ServerId server{request.server_id()};
  const std::string why =
      fmt::format("a reader found it {} on server {}: {}", request.corrupt() ? "corrupt" : "unreadable",
                  servers_.registry.name_of(server), request.detail().substr(0, kMaxDetailBytes));
  if (report_lost(chunk, server, why, request.corrupt())) log::warning("chunk {}: {}", chunk, why);
  const ServerRecord* record = servers_.registry.find(server);
  if (request.corrupt() && record != nullptr) {
    if (const auto address = runtime::Endpoint::parse(record->stored.address()))
      runtime::complain_of(context, *address, static_cast<uint16_t>(rpc::Method::kReadChunk));
  }
  co_return module.finish(co_await store_.finish_read(module.context()));
}

}  // namespace kintsugi::metaserver
