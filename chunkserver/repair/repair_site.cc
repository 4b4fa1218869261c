#include "chunkserver/repair/repair_site.h"

#include <cstring>

#include "monitoring/sight/module.h"
#include "repair_tree/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kRepairChunk{"chunkserver.repair_chunk",
                                   {"bytes", "slice_bytes", "children"},
                                   {"network_seconds", "compute_seconds", "write_seconds"}};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Writes the one sum of a root into the store.
class ChunkSink final : public repair_tree::SumSink {
 public:
  ChunkSink(RepairParts& parts, Context context, ChunkWriter& writer)
      : parts_(parts), context_(context), writer_(writer) {}

  asio::awaitable<Status> put(uint64_t, std::span<const std::span<std::byte>> sums, uint64_t) override {
    const TimePoint began = parts_.runtime.clock.now();
    std::span<const std::byte> left = sums.front();
    while (!left.empty()) {
      auto buffer = co_await parts_.buffers.acquire(context_.deadline);
      if (!buffer) co_return buffer.error();
      size_t part = std::min(left.size(), buffer->size() / kBlockBytes * kBlockBytes);
      std::memcpy(buffer->data(), left.data(), part);
      std::vector<uint32_t> crcs = crc32c_blocks(left.first(part));
      KINTSUGI_CO_TRY(co_await writer_.append(context_, std::move(*buffer), part, std::move(crcs)));
      left = left.subspan(part);
    }
    write_seconds += seconds(parts_.runtime.clock.now() - began);
    co_return Status{};
  }
  asio::awaitable<Status> idle() override { co_return Status{}; }

  double write_seconds = 0;

 private:
  RepairParts& parts_;
  Context context_;
  ChunkWriter& writer_;
};

Status check_request(const proto::RepairChunkRequest& request) {
  if (request.length() > kMaxChunkBytes) return {Code::kInvalidArgument, "impossible chunk length"};
  if (request.children().empty() && request.length() > 0)
    return {Code::kInvalidArgument, "a repair without helpers"};
  for (const proto::RepairNode& child : request.children()) {
    if (child.index() == request.index())
      return {Code::kInvalidArgument, "a chunk cannot help to repair itself"};
  }
  return repair_tree::check_children(request.children(), 1);
}

void add_timing(proto::RepairChunkResponse& response, ServerId self, const TreeSum& sum, double write_seconds,
                Duration duration) {
  proto::Timing& timing = *response.mutable_timing();
  timing.set_seconds(seconds(duration));
  timing.set_network_seconds(sum.receiver().network_seconds());
  timing.set_compute_seconds(sum.compute_seconds());
  timing.set_write_seconds(write_seconds);
  timing.set_bytes_in(sum.receiver().bytes_in());
  proto::ServerTiming& server = *response.add_servers();
  server.set_server_id(self.value);
  server.set_role("destination");
  *server.mutable_timing() = timing;
  sum.receiver().add_servers(*response.mutable_servers());
  // The helpers read at the same time: the slowest one is what the repair saw.
  double read_seconds = 0;
  for (const proto::ServerTiming& helper : response.servers()) {
    read_seconds = std::max(read_seconds, helper.timing().read_seconds());
  }
  timing.set_read_seconds(read_seconds);
}

asio::awaitable<Result<proto::RepairChunkResponse>> rebuild(Context context, RepairParts& parts,
                                                            ServerId self,
                                                            const proto::RepairChunkRequest& request,
                                                            repair_tree::SumRange range,
                                                            sight::Module& module) {
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  const TimePoint began = parts.runtime.clock.now();
  KINTSUGI_CO_ASSIGN(std::unique_ptr<ChunkWriter> writer,
                     co_await parts.store.create(context, id, request.policy(), request.length()));
  proto::PartialSumRequest below;
  below.set_stripe_id(request.stripe_id());
  below.set_repair_id(request.repair_id());
  below.set_length(request.length());
  below.set_slice_bytes(request.slice_bytes());
  // In memory of its own because it is large for a coroutine's frame.
  auto sum_in_heap = std::make_unique<TreeSum>(parts, range, below, request.children(), nullptr);
  TreeSum& sum = *sum_in_heap;
  ChunkSink sink(parts, context, *writer);
  Status status = co_await sum.run(context, sink);
  const TimePoint summed = parts.runtime.clock.now();
  if (status.ok()) {
    auto committed = co_await writer->commit(context, request.length(), request.crc());
    if (!committed) status = committed.error();
    if (status.code() == Code::kCorrupt) {
      status =
          status.with_context("rebuilt from " + repair_tree::describe_helpers(id.stripe, request.children()));
    }
  }
  co_await writer->abort();
  const TimePoint ended = parts.runtime.clock.now();
  sink.write_seconds += seconds(ended - summed);
  module.output(0, sum.receiver().network_seconds());
  module.output(1, sum.compute_seconds());
  module.output(2, sink.write_seconds);
  if (!status.ok()) co_return status;
  proto::RepairChunkResponse response;
  add_timing(response, self, sum, sink.write_seconds, ended - began);
  co_return response;
}

}  // namespace

asio::awaitable<Result<proto::RepairChunkResponse>> repair_chunk(Context context, RepairParts& parts,
                                                                 ServerId self,
                                                                 const proto::RepairChunkRequest& request) {
  sight::Module module{
      context,
      kRepairChunk,
      {double(request.length()), double(request.slice_bytes()), double(request.children_size())}};
  Status checked = check_request(request);
  if (!checked.ok()) co_return module.finish(std::move(checked));
  auto range = repair_tree::SumRange::make(0, request.length(), request.slice_bytes(), 1);
  if (!range) co_return module.finish(range.error());
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  auto present = parts.store.find(id);
  if (present && *present != ChunkInfo{id, request.length(), request.crc()})
    co_return module.finish({Code::kAlreadyExists, fmt::format("another chunk {} is here", id)});
  auto response = co_await rebuild(module.context(), parts, self, request, *range, module);
  if (!response)
    co_return module.finish(response.error().with_context(fmt::format("repair of chunk {}", id)));
  co_return response;
}

}  // namespace kintsugi::chunkserver
