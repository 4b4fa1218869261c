#include "client/lib/check/checked_chunk.h"

#include "common/proto/meta.pb.h"

namespace kintsugi::client {

CheckedChunk checked_chunk(StripeId stripe, const proto::ChunkPlacement& placement, TimePoint located,
                           std::shared_ptr<const std::string> path) {
  return {.id = {stripe, placement.index()},
          .server = ServerId{placement.server_id()},
          .server_name = placement.server_name(),
          .address = placement.address(),
          .length = placement.length(),
          .crc = placement.crc(),
          .capability = placement.capability(),
          .located = located,
          .path = std::move(path)};
}

asio::awaitable<Result<proto::Stripe>> look_up(Resources& resources, Context context, StripeId stripe) {
  proto::ShowStripeRequest request;
  request.set_stripe_id(stripe.value);
  proto::ShowStripeResponse answer;
  KINTSUGI_CO_TRY(co_await resources.meta.call(context, rpc::Method::kShowStripe, request, answer));
  co_return std::move(*answer.mutable_stripe());
}

}  // namespace kintsugi::client
