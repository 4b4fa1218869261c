#include "repair_manager/manager/run_request.h"

namespace kintsugi::repair_manager {

asio::awaitable<Result<proto::RunRepairResponse>> run_requested(RepairManager& manager, Context context,
                                                                proto::RunRepairRequest request) {
  WantedRepair wanted{
      .stripe = StripeId{request.stripe_id()},
      .indexes = {request.index()},
      .wishes = {.slice_bytes = request.slice_bytes(), .destination = ServerId{request.destination()}}};
  wanted.indexes.insert(wanted.indexes.end(), request.more_indexes().begin(), request.more_indexes().end());
  KINTSUGI_CO_ASSIGN(wanted.wishes.shape, parse_shape(request.shape()));
  proto::RunRepairResponse response;
  KINTSUGI_CO_ASSIGN(*response.mutable_record(), co_await manager.run(context, std::move(wanted)));
  co_return response;
}

}  // namespace kintsugi::repair_manager
