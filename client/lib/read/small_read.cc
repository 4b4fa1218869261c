#include "client/lib/read/small_read.h"

#include <cstring>

#include "client/lib/read/fetch_patience.h"
#include "common/base/crc32c.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kSmallRead{"client.small_read", {"bytes"}};

const proto::ChunkPlacement& place_of(const LocatedExtent& part, const erasure::Location& at) {
  return part.stripe->stripe.chunks(static_cast<int>(at.chunk));
}

}  // namespace

bool is_small_read(const Resources& resources, const LocatedExtent& part) {
  if (part.length == 0 || part.length > kMaxSmallRead || part.stripe->is_inline()) return false;
  const erasure::Location begin = erasure::locate(part.stripe->policy, part.stripe_offset);
  const erasure::Location last = erasure::locate(part.stripe->policy, part.stripe_offset + part.length - 1);
  if (begin.chunk != last.chunk || last.chunk_offset - begin.chunk_offset != part.length - 1) return false;
  const proto::ChunkPlacement& place = place_of(part, begin);
  return place.available() && place.server_id() != 0 && !place.address().empty() &&
         !resources.health.go_around(ServerId{place.server_id()});
}

asio::awaitable<Status> small_read(Resources& resources, Context context, LocatedExtent part,
                                   std::span<std::byte> into) {
  sight::Module module(context, kSmallRead, {static_cast<double>(part.length)});
  const erasure::Location at = erasure::locate(part.stripe->policy, part.stripe_offset);
  const proto::ChunkPlacement& place = place_of(part, at);
  const auto server = runtime::Endpoint::parse(place.address());
  if (!server) co_return module.finish(server.error());
  proto::ReadSmallChunkRequest request;
  request.set_stripe_id(part.stripe->stripe.stripe_id());
  request.set_index(place.index());
  request.set_capability(place.capability());
  request.set_offset(at.chunk_offset);
  request.set_length(static_cast<uint32_t>(part.length));
  proto::ReadSmallChunkResponse response;
  const TimePoint began = resources.now();
  const Duration late = FetchPatience(resources, part.length).late;
  const Status status = co_await resources.rpc.call(module.context().with_deadline(began + late), *server,
                                                    rpc::Method::kReadSmallChunk, request, response);
  if (status.code() == Code::kDeadlineExceeded && context.deadline > began + late) {
    resources.health.failed(ServerId{place.server_id()});
    co_return module.finish({Code::kUnavailable, "the server lags"});
  }
  if (!status.ok()) co_return module.finish(status);
  const auto data = std::as_bytes(std::span(response.data()));
  if (data.size() != into.size() || crc32c(data) != response.crc())
    co_return module.finish({Code::kCorrupt, "the server sent other bytes than asked for"});
  std::memcpy(into.data(), data.data(), data.size());
  note_fetch(resources, ServerId{place.server_id()}, part.length, resources.now() - began);
  co_return module.finish({});
}

}  // namespace kintsugi::client
