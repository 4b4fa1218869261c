#include "chunkserver/service/chunk_service.h"

#include "chunkserver/repair/partial_sum.h"
#include "chunkserver/repair/repair_site.h"
#include "chunkserver/service/read_chunk.h"
#include "chunkserver/service/write_chunk.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/types.pb.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

/// Counts a call as long as it runs.
template <class Count>
class Running {
 public:
  explicit Running(Count& count, bool counts = true) : count_(count), counts_(counts) { count_ += counts_; }
  ~Running() { count_ -= counts_; }
  Running(const Running&) = delete;

 private:
  Count& count_;
  const bool counts_;
};

Status counted(ServiceParts& parts, Status status) {
  if (!status.ok()) ++parts.counters.failures;
  return status;
}

/// Both kinds of right are enough to read: a partial sum with coefficient 1 is the chunk.
Status check_either(ServiceParts& parts, const std::string& capability, ChunkId id, uint32_t one,
                    uint32_t other) {
  const WallTime now = parts.runtime.clock.wall_now();
  Status status = rpc::check_capability(parts.secret, capability, id, one, now);
  if (status.ok()) return status;
  return rpc::check_capability(parts.secret, capability, id, other, now);
}

/// The right to read the node's own chunk, and to write what it stores.
Status check_node(ServiceParts& parts, StripeId stripe, const proto::RepairNode& node) {
  if (partial_sum::has_chunk(node)) {
    KINTSUGI_TRY(
        check_either(parts, node.capability(), {stripe, node.index()}, rpc::kOpRepair, rpc::kOpRead));
  }
  for (const proto::RebuiltChunk& store : node.stores()) {
    KINTSUGI_TRY(rpc::check_capability(parts.secret, store.capability(), {stripe, store.index()},
                                       rpc::kOpWrite, parts.runtime.clock.wall_now()));
  }
  return {};
}

asio::awaitable<Status> write_chunk(ServiceParts& parts, Context context, proto::WriteChunkRequest request,
                                    rpc::Stream& stream) {
  ++parts.counters.writes;
  Running running(parts.counters.users_served);
  co_return counted(parts, co_await serve_write_chunk(context, parts, request, stream));
}

asio::awaitable<Status> read_chunk(ServiceParts& parts, Context context, proto::ReadChunkRequest request,
                                   rpc::Stream& stream) {
  ++parts.counters.reads;
  Running running(parts.counters.users_served, !request.background());
  co_return counted(parts, co_await serve_read_chunk(context, parts, request, stream));
}

asio::awaitable<Status> partial_sum(ServiceParts& parts, Context context, proto::PartialSumRequest request,
                                    rpc::Stream& stream) {
  ++parts.counters.partial_sums;
  Status allowed = check_node(parts, StripeId(request.stripe_id()), request.node());
  if (!allowed.ok()) co_return counted(parts, std::move(allowed));
  Running running(parts.counters.repairs_running);
  co_return counted(parts, co_await stream_partial_sum(context, parts.repair, request, stream));
}

asio::awaitable<Result<proto::RepairChunkResponse>> repair(ServiceParts& parts, Context context,
                                                           proto::RepairChunkRequest request) {
  ++parts.counters.repairs;
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = rpc::check_capability(parts.secret, request.capability(), id, rpc::kOpWrite,
                                         parts.runtime.clock.wall_now());
  if (!allowed.ok()) co_return counted(parts, std::move(allowed));
  Running running(parts.counters.repairs_running);
  auto response = co_await repair_chunk(context, parts.repair, parts.store.identity().server, request);
  if (!response) co_return counted(parts, response.error());
  co_return response;
}

asio::awaitable<Result<proto::Empty>> end(ServiceParts& parts, proto::EndRepairRequest request) {
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = rpc::check_capability(parts.secret, request.capability(), id, rpc::kOpWrite,
                                         parts.runtime.clock.wall_now());
  if (!allowed.ok()) co_return counted(parts, std::move(allowed));
  end_repair(parts.repair, request);
  co_return proto::Empty{};
}

asio::awaitable<Status> probe_link(LinkProber& prober, Context context, proto::ProbeLinkRequest request,
                                   rpc::Stream& stream) {
  co_return co_await prober.serve(context, request, stream);
}

asio::awaitable<Result<proto::Empty>> ping() {
  co_return proto::Empty{};
}

}  // namespace

void register_chunk_service(rpc::Server& server, ServiceParts& parts, LinkProber& prober) {
  using rpc::Method;
  server.handle_stream<proto::WriteChunkRequest>(
      Method::kWriteChunk, [&parts](Context context, proto::WriteChunkRequest request, rpc::Stream& stream) {
        return write_chunk(parts, context, std::move(request), stream);
      });
  server.handle_stream<proto::ReadChunkRequest>(
      Method::kReadChunk, [&parts](Context context, proto::ReadChunkRequest request, rpc::Stream& stream) {
        return read_chunk(parts, context, std::move(request), stream);
      });
  server.handle_stream<proto::PartialSumRequest>(
      Method::kPartialSum, [&parts](Context context, proto::PartialSumRequest request, rpc::Stream& stream) {
        return partial_sum(parts, context, std::move(request), stream);
      });
  server.handle<proto::RepairChunkRequest, proto::RepairChunkResponse>(
      Method::kRepairChunk, [&parts](Context context, proto::RepairChunkRequest request) {
        return repair(parts, context, std::move(request));
      });
  server.handle<proto::EndRepairRequest, proto::Empty>(
      Method::kEndRepair,
      [&parts](Context, proto::EndRepairRequest request) { return end(parts, std::move(request)); });
  server.handle_stream<proto::ProbeLinkRequest>(
      Method::kProbeLink, [&prober](Context context, proto::ProbeLinkRequest request, rpc::Stream& stream) {
        return probe_link(prober, context, std::move(request), stream);
      });
  server.handle<proto::Empty, proto::Empty>(Method::kPing, [](Context, proto::Empty) { return ping(); });
}

}  // namespace kintsugi::chunkserver
