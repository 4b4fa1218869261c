#include "chunkserver/service/metaserver_link.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kRegister{"chunkserver.register"};
constexpr sight::Site kHeartbeat{"chunkserver.heartbeat"};
constexpr sight::Site kReport{"chunkserver.block_report", {}, {"chunks"}};
constexpr sight::Site kDelete{"chunkserver.delete_chunk"};

void fill(proto::ReportedChunk& out, const ChunkInfo& chunk) {
  out.set_stripe_id(chunk.id.stripe.value);
  out.set_index(chunk.id.index);
  out.set_length(chunk.length);
  out.set_crc(chunk.crc);
}

}  // namespace

MetaserverLink::MetaserverLink(ServiceParts& parts, HeartbeatParts heartbeat, rpc::Client& client,
                               sight::Recorder& recorder, LinkOptions options)
    : parts_(parts),
      heartbeat_(heartbeat),
      client_(client),
      recorder_(recorder),
      options_(std::move(options)),
      incarnation_(parts.runtime.random.next() | 1),
      victims_came_(parts.runtime),
      tasks_(parts.runtime) {}

void MetaserverLink::start() {
  // An order to delete was given before this copy was: carried out now, it would hit the new one.
  parts_.store.on_write = [this](ChunkId id) { victims_known_.erase(id); };
  tasks_.spawn(run());
  tasks_.spawn(delete_victims());
}

asio::awaitable<void> MetaserverLink::stop() {
  tasks_.request_stop();
  victims_came_.notify_all();
  co_await tasks_.join();
  parts_.store.on_write = [](ChunkId) {};
}

Context MetaserverLink::call_context() {
  return recorder_.root_context(parts_.runtime.clock.now() + kCallLimit);
}

asio::awaitable<void> MetaserverLink::run() {
  Duration backoff = kFirstBackoff;
  while (!tasks_.stopping()) {
    Status status;
    if (!registered_) {
      status = co_await register_server();
    } else if (report_wanted_ || parts_.runtime.clock.now() >= next_report_) {
      status = co_await report_blocks();
    } else {
      status = co_await heartbeat();
      if (status.ok() && registered_ && !report_wanted_) (void)co_await tasks_.sleep_for(interval_);
    }
    if (status.ok()) {
      backoff = kFirstBackoff;
      continue;
    }
    // Only the metaserver itself answers so, and only to a server that was removed.
    if (status.code() == Code::kNotFound) refuse(std::move(status));
    if (refused_) co_return;
    log::warning("metaserver {}: {}", options_.metaserver.to_string(), status.to_string());
    (void)co_await tasks_.sleep_for(backoff);
    backoff = std::min(2 * backoff, kLastBackoff);
  }
}

void MetaserverLink::refuse(Status why) {
  refused_ = true;
  registered_ = false;
  if (on_refused) on_refused(std::move(why));
}

asio::awaitable<Status> MetaserverLink::register_server() {
  sight::Module module{call_context(), kRegister};
  proto::RegisterServerRequest request;
  request.set_server_id(parts_.store.identity().server.value);
  request.set_address(options_.address);
  request.set_rack(options_.rack);
  request.set_http_address(options_.http_address);
  request.set_incarnation(incarnation_);
  auto response = co_await client_.call<proto::RegisterServerResponse>(module.context(), options_.metaserver,
                                                                       rpc::Method::kRegisterServer, request);
  if (!response) co_return module.finish(response.error().with_context("register"));
  Status joined = co_await parts_.store.join_cluster(response->cluster_id());
  if (!joined.ok()) {
    if (joined.code() == Code::kConflict) {
      log::error("{}", joined.message());
      refuse(joined);
    }
    co_return module.finish(std::move(joined));
  }
  const Duration asked = std::chrono::milliseconds(response->heartbeat_interval_ms());
  if (asked > Duration::zero()) interval_ = std::clamp(asked, kMinHeartbeatInterval, kMaxHeartbeatInterval);
  registered_ = true;
  report_wanted_ = true;
  heartbeat_.cache.restate();
  log::info("server {} at {} is registered with the metaserver {}", parts_.store.identity().server,
            options_.address, options_.metaserver.to_string());
  co_return module.finish({});
}

asio::awaitable<Status> MetaserverLink::report_blocks() {
  sight::Module module{recorder_.root_context(), kReport};
  proto::BlockReportRequest request;
  request.set_server_id(parts_.store.identity().server.value);
  request.set_incarnation(incarnation_);
  request.set_report_id(++reports_);  // growing: a page that comes late is told from a new report's
  ChunkId after;
  size_t reported = 0;
  while (!request.last()) {
    // One more than a page tells whether this is the last.
    std::vector<ChunkInfo> chunks = parts_.store.list(after, kReportPage + 1);
    request.set_last(chunks.size() <= kReportPage);
    if (!request.last()) chunks.pop_back();
    request.clear_chunks();
    for (const ChunkInfo& chunk : chunks)
      fill(*request.add_chunks(), chunk);
    reported += chunks.size();
    if (!chunks.empty()) after = chunks.back().id;
    const Context context = module.context().with_deadline(parts_.runtime.clock.now() + kCallLimit);
    auto response =
        co_await client_.call<proto::Empty>(context, options_.metaserver, rpc::Method::kBlockReport, request);
    if (!response) co_return module.finish(response.error().with_context("block report"));
    if (tasks_.stopping()) co_return module.finish({Code::kCancelled, "stopping"});
  }
  module.output(0, double(reported));
  report_wanted_ = false;
  next_report_ = parts_.runtime.clock.now() + kReportInterval;
  co_return module.finish({});
}

void MetaserverLink::take_lost() {
  for (const ChunkInfo& chunk : parts_.store.take_lost())
    lost_.push_back(chunk);
}

proto::HeartbeatRequest MetaserverLink::heartbeat_request(const StoreSpace& space) {
  proto::HeartbeatRequest request;
  request.set_server_id(parts_.store.identity().server.value);
  request.set_incarnation(incarnation_);
  request.set_sequence(++sequence_);
  request.set_total_bytes(space.total_bytes);
  request.set_free_bytes(space.free_bytes);
  request.set_chunks(space.chunks);
  request.set_stored_bytes(space.stored_bytes);
  request.set_disks(space.disks);
  request.set_failed_disks(space.failed_disks);
  heartbeat_.load.fill(request);
  heartbeat_.cache.fill(request);

  take_lost();
  for (size_t i = 0; i < std::min(lost_.size(), kMaxLostPerHeartbeat); ++i)
    fill(*request.add_lost(), lost_[i]);
  return request;
}

asio::awaitable<Status> MetaserverLink::heartbeat() {
  sight::Module module{call_context(), kHeartbeat};
  const StoreSpace space = co_await parts_.store.space();
  const proto::HeartbeatRequest request = heartbeat_request(space);
  auto response = co_await client_.call<proto::HeartbeatResponse>(module.context(), options_.metaserver,
                                                                  rpc::Method::kHeartbeat, request);
  if (!response) co_return module.finish(response.error().with_context("heartbeat"));
  if (!response->register_again()) {
    lost_.erase(lost_.begin(), lost_.begin() + request.lost_size());
    heartbeat_.cache.delivered(request);
  }
  obey(*response);
  co_return module.finish({});
}

void MetaserverLink::obey(const proto::HeartbeatResponse& response) {
  if (response.register_again()) registered_ = false;
  if (response.report_blocks()) report_wanted_ = true;
  if (!response.probe_address().empty()) {
    auto peer = runtime::Endpoint::parse(response.probe_address());
    if (peer) heartbeat_.prober.offer(std::move(*peer));
  }
  for (const auto& victim : response.delete_chunks()) {
    const ChunkId id{StripeId(victim.stripe_id()), victim.index()};
    if (victims_.size() >= kMaxVictims) break;
    if (victims_known_.insert(id).second) victims_.push_back(id);
  }
  if (!victims_.empty()) victims_came_.notify_all();
}

asio::awaitable<void> MetaserverLink::delete_victims() {
  while (!tasks_.stopping()) {
    if (victims_.empty()) {
      co_await victims_came_.wait();
      continue;
    }
    // Side by side, so that the tombstones of small chunks share a sync.
    runtime::TaskGroup deletes(parts_.runtime);
    for (size_t i = 0; i < std::min(kDeletesAtOnce, victims_.size()); ++i)
      deletes.spawn(delete_some());
    co_await deletes.join();
  }
}

asio::awaitable<void> MetaserverLink::delete_some() {
  while (!victims_.empty() && !tasks_.stopping()) {
    const ChunkId id = victims_.front();
    victims_.pop_front();
    if (victims_known_.erase(id) == 0) continue;  // withdrawn
    sight::Module module{recorder_.root_context(), kDelete};
    Status removed = co_await parts_.store.remove(module.context(), id);
    if (!removed.ok() && removed.code() != Code::kNotFound) {
      log::warning("chunk {} cannot be deleted: {}", id, removed.to_string());
    }
    module.set_code(removed.code());
  }
}

}  // namespace kintsugi::chunkserver
