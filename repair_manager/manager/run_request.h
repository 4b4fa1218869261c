/// `kintsugi repair run`, as whoever hosts a repair manager serves it.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

/// Errors: those of RepairManager::run; kInvalidArgument: no such shape.
asio::awaitable<Result<proto::RunRepairResponse>> run_requested(RepairManager& manager, Context context,
                                                                proto::RunRepairRequest request);

}  // namespace kintsugi::repair_manager
