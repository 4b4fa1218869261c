#include "repair_manager/manager/run_request.h"

namespace kintsugi::repair_manager {

asio::awaitable<Result<proto::RunRepairResponse>> run_requested(RepairManager& manager, Context context,
                                                                proto::RunRepairRequest request) {
  if (!proto::RepairShape_IsValid(request.shape()))
    co_return Status{Code::kInvalidArgument,
                     fmt::format("no repair shape has number {}", int{request.shape()})};
  WantedRepair wanted{.stripe = StripeId{request.stripe_id()},
                      .indexes = {request.index()},
                      .wishes = {.shape = request.shape(),
                                 .slice_bytes = request.slice_bytes(),
                                 .destination = ServerId{request.destination()}}};
  wanted.indexes.insert(wanted.indexes.end(), request.more_indexes().begin(), request.more_indexes().end());
  proto::RunRepairResponse response;
  KINTSUGI_CO_ASSIGN(*response.mutable_record(), co_await manager.run(context, std::move(wanted)));
  co_return response;
}

}  // namespace kintsugi::repair_manager
