#include "chunkserver/service/chunk_service.h"

#include "chunkserver/repair/partial_sum.h"
#include "chunkserver/repair/repair_site.h"
#include "chunkserver/service/read_chunk.h"
#include "chunkserver/service/write_chunk.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/types.pb.h"

namespace kintsugi::chunkserver {
namespace {

/// Counts a call that runs for a repair.
class RunningRepair {
 public:
  explicit RunningRepair(ServiceCounters& counters) : counters_(counters) { ++counters_.repairs_running; }
  ~RunningRepair() { --counters_.repairs_running; }
  RunningRepair(const RunningRepair&) = delete;

 private:
  ServiceCounters& counters_;
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

asio::awaitable<Status> write_chunk(ServiceParts& parts, Context context, proto::WriteChunkRequest request,
                                    rpc::Stream& stream) {
  ++parts.counters.writes;
  co_return counted(parts, co_await serve_write_chunk(context, parts, request, stream));
}

asio::awaitable<Status> read_chunk(ServiceParts& parts, Context context, proto::ReadChunkRequest request,
                                   rpc::Stream& stream) {
  ++parts.counters.reads;
  co_return counted(parts, co_await serve_read_chunk(context, parts, request, stream));
}

asio::awaitable<Status> partial_sum(ServiceParts& parts, Context context, proto::PartialSumRequest request,
                                    rpc::Stream& stream) {
  ++parts.counters.partial_sums;
  const ChunkId id{StripeId(request.stripe_id()), request.node().index()};
  Status allowed = check_either(parts, request.node().capability(), id, rpc::kOpRepair, rpc::kOpRead);
  if (!allowed.ok()) co_return counted(parts, std::move(allowed));
  RunningRepair running(parts.counters);
  co_return counted(parts, co_await stream_partial_sum(context, parts.repair, request, stream));
}

asio::awaitable<Result<proto::RepairChunkResponse>> repair(ServiceParts& parts, Context context,
                                                           proto::RepairChunkRequest request) {
  ++parts.counters.repairs;
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = rpc::check_capability(parts.secret, request.capability(), id, rpc::kOpWrite,
                                         parts.runtime.clock.wall_now());
  if (!allowed.ok()) co_return counted(parts, std::move(allowed));
  RunningRepair running(parts.counters);
  auto response = co_await repair_chunk(context, parts.repair, parts.store.identity().server, request);
  if (!response) co_return counted(parts, response.error());
  co_return response;
}

asio::awaitable<Result<proto::Empty>> ping() {
  co_return proto::Empty{};
}

}  // namespace

void register_chunk_service(rpc::Server& server, ServiceParts& parts) {
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
  server.handle<proto::Empty, proto::Empty>(Method::kPing, [](Context, proto::Empty) { return ping(); });
}

}  // namespace kintsugi::chunkserver
