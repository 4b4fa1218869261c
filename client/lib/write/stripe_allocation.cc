#include "client/lib/write/stripe_allocation.h"

namespace kintsugi::client {

StripeAllocation::StripeAllocation(const runtime::Runtime& runtime, MetaLink& meta,
                                   proto::AllocateStripeResponse response)
    : meta_(meta),
      upload_id_(response.upload_id()),
      stripe_(std::move(*response.mutable_stripe())),
      ticket_(std::move(*response.mutable_ticket())),
      replacing_(runtime, 1) {}

asio::awaitable<Status> StripeAllocation::replace(Context context, uint32_t index,
                                                  std::vector<ServerId> avoided, Repeat repeat) {
  KINTSUGI_CO_TRY(co_await replacing_.acquire(context.deadline));
  proto::ReplaceChunkRequest request;
  request.set_upload_id(upload_id_);
  *request.mutable_stripe() = stripe_;
  request.set_ticket(ticket_);
  request.set_index(index);
  for (const uint64_t server : failed_servers_)
    request.add_exclude(server);
  for (const ServerId server : avoided)
    request.add_exclude(server.value);
  proto::ReplaceChunkResponse response;
  const Status replaced = co_await meta_.call(context, rpc::Method::kReplaceChunk, request, response, repeat);
  replacing_.release();
  KINTSUGI_CO_TRY(replaced);
  *stripe_.mutable_chunks(static_cast<int>(index)) = std::move(*response.mutable_chunk());
  ticket_ = std::move(*response.mutable_ticket());
  co_return Status{};
}

}  // namespace kintsugi::client
