#include "chunkserver/service/metaserver_link.h"

#include "common/base/server_name.h"
#include "common/log/log.h"
#include "common/proto/formats.h"
#include "common/runtime/backoff.h"
#include "common/runtime/fault_points.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kRegister{"chunkserver.register"};
constexpr sight::Site kHeartbeat{"chunkserver.heartbeat"};
constexpr sight::Site kReport{"chunkserver.block_report", {}, {"chunks"}};

}  // namespace

MetaserverLink::MetaserverLink(const runtime::Runtime& runtime, ChunkStore& store, Heartbeat& heartbeat,
                               rpc::Client& client, sight::Recorder& recorder, LinkOptions options)
    : runtime_(runtime),
      store_(store),
      heartbeat_(heartbeat),
      client_(client),
      recorder_(recorder),
      options_(std::move(options)),
      incarnation_(runtime.random.next() | 1),
      tasks_(runtime) {}

void MetaserverLink::start() {
  tasks_.spawn(run());
}

asio::awaitable<void> MetaserverLink::stop() {
  co_await tasks_.stop();
}

Context MetaserverLink::call_context() {
  return recorder_.root_context(runtime_.clock.now() + kCallLimit);
}

asio::awaitable<void> MetaserverLink::run() {
  runtime::Backoff backoff(runtime_.random, kFirstBackoff, kLastBackoff);
  while (!tasks_.stopping()) {
    // The chunks of a disk that joined count as lost until a report names them, and a second copy that is used now may be
    // one that nobody wants.
    const StoreCounters counters = store_.counters();
    const uint64_t found_late = counters.disks_joined + counters.copies_found;
    if (std::exchange(found_late_, found_late) != found_late) report_due_ = runtime_.clock.now();
    // The metaserver has forgotten that it wanted them deleted: it finds them again in a report.
    if (heartbeat_.take_kept()) report_due_ = runtime_.clock.now();
    Status status;
    if (!registered_) {
      status = co_await register_server();
    } else if (runtime_.clock.now() >= report_due_) {
      status = co_await report_blocks();
      report_due_ = runtime_.clock.now() + (status.ok() ? kReportInterval : kReportAgain);
    } else {
      status = co_await send_heartbeat(call_context(), /*leaving=*/false);
      const TimePoint next = std::min(runtime_.clock.now() + interval_, report_due_);
      const bool rest = status.ok() && registered_ && !heartbeat_.more_to_tell();
      if (rest) (void)co_await tasks_.sleep_until(next);
    }
    if (refused_) co_return;
    if (status.ok()) {
      backoff.reset();
      continue;
    }
    log::warning("metaserver {}: {}", options_.metaserver.to_string(), status.to_string());
    (void)co_await tasks_.sleep_for(backoff.next());
  }
}

void MetaserverLink::refuse(Status why) {
  refused_ = true;
  registered_ = false;
  if (on_refused) on_refused(std::move(why));
}

Status MetaserverLink::note(Status called, std::string_view call) {
  called = called.with_context(call);
  // Only the metaserver itself answers with these, and only to a server that was removed, to a process that another one
  // has taken the place of, or to a program that does not know the cluster's format.
  const bool unwanted = called.code() == Code::kNotFound || called.code() == Code::kAlreadyExists ||
                        called.code() == Code::kNotSupported;
  if (unwanted) refuse(called);
  return called;
}

asio::awaitable<Status> MetaserverLink::register_server() {
  sight::BackgroundTask module{call_context(), kRegister};
  proto::RegisterServerRequest request;
  request.set_server_id(store_.identity().server.value);
  request.set_address(options_.address);
  request.set_rack(options_.rack);
  request.set_http_address(options_.http_address);
  request.set_name(options_.name);
  const uint32_t number = store_.identity().number;
  request.set_number(number != 0 ? number : number_in_server_name(options_.name));
  request.set_incarnation(incarnation_);
  request.set_replaces(replaces_);
  request.set_newest_format(proto::kNewestFormat);
  if (mark_.epoch() == 0) {
    mark_.set_epoch(store_.identity().metadata.epoch);
    mark_.set_position(store_.identity().metadata.position);
  }
  *request.mutable_seen() = mark_;
  proto::RegisterServerResponse response;
  Status called = co_await client_.call(module.context(), options_.metaserver, rpc::Method::kRegisterServer,
                                        request, response);
  if (!called.ok()) co_return module.finish(note(std::move(called), "register"));
  if (response.replaces() != 0) {
    replaces_ = response.replaces();
    co_return module.finish({});  // it asks again at once
  }
  // A metaserver from before there were numbers tells none.
  const uint32_t given = response.number() != 0 ? response.number() : number;
  Status joined = proto::check_format(std::max(response.format(), proto::kUnsaidFormat), "the cluster");
  if (joined.ok()) joined = co_await store_.join_cluster(response.cluster_id(), given, response.format());
  if (!joined.ok()) {
    if (joined.code() == Code::kConflict || joined.code() == Code::kNotSupported) {
      log::error("{}", joined.message());
      refuse(joined);
    }
    co_return module.finish(std::move(joined));
  }
  const Duration asked = std::chrono::milliseconds(response.heartbeat_interval_ms());
  if (asked > Duration::zero()) interval_ = std::clamp(asked, kMinHeartbeatInterval, kMaxHeartbeatInterval);
  registered_ = true;
  report_due_ = runtime_.clock.now();
  heartbeat_.restate();
  log::info("server {} (number {}, id {}) at {} is registered with the metaserver {}",
            response.name().empty() ? options_.address : response.name(), given, store_.identity().server,
            options_.address, options_.metaserver.to_string());
  co_return module.finish({});
}

asio::awaitable<Status> MetaserverLink::report_blocks() {
  sight::BackgroundTask module{recorder_.root_context(), kReport};
  proto::BlockReportRequest request;
  request.set_server_id(store_.identity().server.value);
  request.set_incarnation(incarnation_);
  request.set_report_id(++reports_);  // growing: a page that comes late is told from a new report's
  ChunkId after;
  size_t reported = 0;
  while (!request.last()) {
    // One more than a page tells whether this is the last.
    std::vector<ListedChunk> chunks = store_.list_with_disks(after, kReportPage + 1);
    request.set_last(chunks.size() <= kReportPage);
    if (!request.last()) chunks.pop_back();
    request.set_continues(reported > 0);
    request.clear_chunks();
    for (const ListedChunk& chunk : chunks) {
      proto::ReportedChunk& told = *request.add_chunks();
      fill(told, chunk.info);
      told.set_disk(chunk.disk);
    }
    reported += chunks.size();
    if (!chunks.empty()) after = chunks.back().info.id;
    const Context context = module.context().with_deadline(runtime_.clock.now() + kCallLimit);
    proto::Empty response;
    Status called =
        co_await client_.call(context, options_.metaserver, rpc::Method::kBlockReport, request, response);
    if (!called.ok()) co_return module.finish(note(std::move(called), "block report"));
    if (tasks_.stopping()) co_return module.finish({Code::kCancelled, "stopping"});
  }
  module.output(0, double(reported));
  co_return module.finish({});
}

asio::awaitable<Status> MetaserverLink::send_heartbeat(Context context, bool leaving) {
  sight::BackgroundTask module{context, kHeartbeat};
  KINTSUGI_FAULT_POINT(runtime_.faults, runtime::FaultPoint::kHeartbeat);
  proto::HeartbeatRequest request;
  request.set_server_id(store_.identity().server.value);
  request.set_incarnation(incarnation_);
  request.set_sequence(++sequence_);
  heartbeat_.fill(request);
  request.set_leaving(leaving);
  request.set_repair_limit_bytes_per_second(options_.repair_limit_bytes_per_second);
  const TimePoint asked = runtime_.clock.now();
  request.set_wall_clock_ns(runtime_.clock.wall_now().time_since_epoch().count());
  proto::HeartbeatResponse response;
  Status called = co_await client_.call(module.context(), options_.metaserver, rpc::Method::kHeartbeat,
                                        request, response);
  if (!called.ok()) co_return module.finish(note(std::move(called), "heartbeat"));
  options_.metaserver_clock.heard(response.wall_clock_ns(), asked);
  if (!response.register_again()) options_.pacer.set_cluster_limit(response.repair_limit_bytes_per_second());
  // A metaserver that does not know this server has taken nothing of what it was told.
  if (!response.register_again()) heartbeat_.delivered(request);
  obey(response);
  keep_mark(response.metadata());
  co_return module.finish(co_await keep_format(response.format()));
}

asio::awaitable<Status> MetaserverLink::keep_format(uint32_t format) {
  const Identity& known = store_.identity();
  if (format <= known.format) co_return Status{};
  log::info("the cluster has format {} from now on", format);
  co_return co_await store_.join_cluster(known.cluster, known.number, format);
}

asio::awaitable<Status> MetaserverLink::say_leaving() {
  if (!registered_) co_return Status{Code::kUnavailable, "not registered with the metaserver"};
  co_return co_await send_heartbeat(recorder_.root_context(runtime_.clock.now() + kLeaveLimit),
                                    /*leaving=*/true);
}

void MetaserverLink::obey(const proto::HeartbeatResponse& response) {
  if (response.register_again()) registered_ = false;
  if (response.report_blocks()) report_due_ = runtime_.clock.now();
  heartbeat_.obey(response);
}

void MetaserverLink::keep_mark(const proto::MetadataMark& mark) {
  if (mark.epoch() == 0) return;
  const bool new_epoch = mark.epoch() != store_.identity().metadata.epoch;
  mark_ = mark;
  // Later chunks are proven by the mark in memory unless this server dies, too; a new epoch is worth a sync at once.
  if (!new_epoch && runtime_.clock.now() < mark_kept_ + kMarkInterval) return;
  mark_kept_ = runtime_.clock.now();
  store_.keep_metadata_mark({mark.epoch(), mark.position()});
}

}  // namespace kintsugi::chunkserver
